"""A load on an HTTP server by wrk, which is written in C and so never the limit.

Called by the HTTP scenarios. wrk runs a script in Lua that makes the requests and prints what it
saw as one line; any answer but a 200 fails the scenario.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

import msgspec

SCRIPT: Final = """
local headers = { ["Content-Type"] = "application/json", ["Authorization"] = "Bearer %(token)s" }
local bodies = { %(bodies)s }
local paths = { %(paths)s }
local held = {}
local n = 0
wrk.method = "POST"
function request()
  if %(settles)s and #held > 0 then
    return wrk.format("POST", paths[2], headers, table.remove(held))
  end
  n = n %% #bodies + 1
  return wrk.format("POST", paths[1], headers, bodies[n])
end
function response(status, _, body)
  if status ~= 200 then print("FAILED " .. status .. " " .. body) os.exit(1) end
  if %(settles)s then
    local seq = string.match(body, '"seq_number":(%%d+)')
    local token = string.match(body, '"lock_token":"(%%x+)"')
    if token then
      held[#held + 1] = '{"queue":"q","seq_number":' .. seq .. ',"lock_token":"' .. token .. '"}'
    end
  end
end
function done(summary, latency, _)
  local e = summary.errors
  print(string.format(
    'SEEN {"requests":%%d,"seconds":%%f,"p50":%%f,"p99":%%f,"max":%%f,"errors":%%d}',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e6,
    latency:percentile(99) / 1e6, latency.max / 1e6,
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


class Seen(msgspec.Struct, frozen=True):
    """What wrk counted; times in seconds."""

    requests: int
    seconds: float
    p50: float
    p99: float
    max: float
    errors: int


def load(
    url: str,
    paths: list[str],
    bodies: list[bytes],
    *,
    token: str,
    connections: int,
    seconds: float,
    folder: Path,
) -> Seen:
    """POST `bodies` in turn to the first path; each lease of an answer is then settled by the
    second, if there is one."""
    script = folder / "load.lua"
    script.write_text(
        SCRIPT
        % {
            "token": token,
            "bodies": ", ".join(json.dumps(body.decode()) for body in bodies),
            "paths": ", ".join(json.dumps(path) for path in paths),
            "settles": "true" if len(paths) > 1 else "false",
        }
    )
    command = [
        "wrk", "-t", "1", "-c", str(connections), "-d", f"{max(1, round(seconds))}s",
        "--timeout", "20s", "-s", str(script), url,
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    for line in ran.stdout.splitlines():
        if line.startswith("SEEN "):
            seen = msgspec.json.decode(line[5:], type=Seen)
            if seen.errors:
                raise RuntimeError(f"wrk met {seen.errors} errors at {url}")
            return seen
    raise RuntimeError(f"wrk failed: {ran.stdout[-500:]}{ran.stderr[-500:]}")
