// @tursodatabase/serverless at the deeds of test_foreign_clients.py: `node … PACKAGES URL TOKEN`.

import { createRequire } from "node:module";

const [, , packages, url, authToken] = process.argv;
const require = createRequire(`${packages}/`);
const { connect } = require("@tursodatabase/serverless");

const saw = {};
const client = connect({ url, authToken });
const count = async () => (await (await client.prepare("SELECT count(*) AS n FROM s")).get()).n;
const failure = async (promise) => promise.then(() => null, (error) => error);

await client.exec("CREATE TABLE s (id INTEGER PRIMARY KEY, b BLOB, x REAL, s TEXT)");
const insert = await client.prepare("INSERT INTO s VALUES (?, ?, ?, ?)");
const inserted = await insert.run([5, Buffer.from([0, 255, 1]), 1.5, "ä\u{1f600}"]);
saw.inserted = [inserted.changes, Number(inserted.lastInsertRowid)];
const row = await (await client.prepare("SELECT id, b, x, s, NULL AS z FROM s")).get();
saw.row = [row.id, Buffer.from(row.b).toString("hex"), row.x, row.s, row.z];
const columns = await client.prepare("SELECT id, s AS t FROM s");
saw.columns = columns.columns().map((each) => each.name);

const constraint = await failure(client.exec("INSERT INTO s (id) VALUES (5)"));
saw.constraint = constraint.message.includes("UNIQUE constraint failed: s.id");
saw.syntax = (await failure(client.prepare("SELEC 1"))) !== null;

await client.batch(["INSERT INTO s (s) VALUES ('a')", "INSERT INTO s (s) VALUES ('b')"]);
saw.batch = await count();
const half = ["INSERT INTO s (s) VALUES ('c')", "INSERT INTO s (id) VALUES (5)"];
saw["half a batch"] = (await failure(client.batch(half, "immediate"))) !== null;
saw["failed batch"] = await count();

await client.exec("BEGIN");
await client.exec("INSERT INTO s (s) VALUES ('gone')");
saw["in a transaction"] = [await count(), client.inTransaction];
await client.exec("ROLLBACK");
saw["rolled back"] = [await count(), client.inTransaction];

await client.exec("INSERT INTO s (s) VALUES ('d'); INSERT INTO s (s) VALUES (';')");
saw.script = await count();
const all = await (await client.prepare("SELECT s FROM s WHERE s > 'a' ORDER BY s")).all();
saw.all = all.map((each) => each.s);
await client.close();

const stranger = connect({ url, authToken: "nobody" });
saw.stranger = /401|nauthorized/.test(String(await failure(stranger.exec("SELECT 1"))));
console.log(JSON.stringify(saw));
