// @libsql/client at the deeds of test_foreign_clients.py: `node libsql.mjs PACKAGES URL TOKEN`.

import { createRequire } from "node:module";

const [, , packages, url, authToken] = process.argv;
const require = createRequire(`${packages}/`);
const { createClient } = require("@libsql/client/http");

const saw = {};
const client = createClient({ url, authToken, intMode: "bigint" });
const count = async (where = client) =>
  Number((await where.execute("SELECT count(*) AS n FROM j")).rows[0].n);
const failure = async (promise) => promise.then(() => null, (error) => error);

await client.execute("CREATE TABLE j (id INTEGER PRIMARY KEY, b BLOB, x REAL, s TEXT)");
const inserted = await client.execute({
  sql: "INSERT INTO j VALUES (?, ?, ?, ?)",
  args: [5, new Uint8Array([0, 255, 1]), 1.5, "ä\u{1f600}"],
});
saw.inserted = [inserted.rowsAffected, Number(inserted.lastInsertRowid)];
const [row] = (await client.execute("SELECT id, b, x, s, NULL FROM j")).rows;
saw.row = [Number(row[0]), Buffer.from(row[1]).toString("hex"), row[2], row[3], row[4]];
const named = await client.execute({ sql: "SELECT :a, @b", args: { a: 1, b: "two" } });
saw.named = [Number(named.rows[0][0]), named.rows[0][1]];
const large = await client.execute({ sql: "SELECT ?", args: [9007199254740993n] });
saw.large = String(large.rows[0][0]);

const constraint = await failure(client.execute("INSERT INTO j (id) VALUES (5)"));
saw.constraint = constraint.code === "SQLITE_CONSTRAINT";
const syntax = await failure(client.execute("SELEC 1"));
saw.syntax = syntax.code === "SQL_PARSE_ERROR";
const many = await failure(client.execute("SELECT 1; SELECT 2"));
saw["two statements"] = many.code === "SQL_MANY_STATEMENTS";

const batch = await client.batch(
  ["INSERT INTO j (s) VALUES ('a')", { sql: "INSERT INTO j (s) VALUES (?)", args: ["b"] }],
  "write",
);
saw.batch = [batch.map((each) => each.rowsAffected), await count()];
await failure(client.batch(["INSERT INTO j (s) VALUES ('c')", "INSERT INTO j (id) VALUES (5)"]));
saw["failed batch"] = await count();

const lost = await client.transaction("write");
await lost.execute("INSERT INTO j (s) VALUES ('gone')");
saw["in a transaction"] = await count(lost);
await lost.rollback();
saw["rolled back"] = await count();
const kept = await client.transaction("write");
await kept.batch(["INSERT INTO j (s) VALUES ('d')", "INSERT INTO j (s) VALUES ('e')"]);
await kept.commit();
saw.committed = await count();

await client.executeMultiple("INSERT INTO j (s) VALUES ('f'); INSERT INTO j (s) VALUES (';');");
saw.script = await count();
client.close();

const stranger = createClient({ url, authToken: "nobody" });
saw.stranger = String(await failure(stranger.execute("SELECT 1"))).includes("401");
console.log(JSON.stringify(saw));
