package module

// Build is the command that builds the handler of a module in Go, in the directory of the module.
const Build = "CGO_ENABLED=0 go build -C src -o ../handlers/on-event ."

// template is the first handler of a new module.
type template struct {
	file, text string
	handler    string            // path of the program
	more       map[string]string // other files
}

// templates returns the handlers by language and mode.
func templates() map[[2]string]template {
	script := func(file, text string) template { return template{file: file, text: text, handler: file} }
	program := func(text string) template {
		return template{file: "src/main.go", text: text, handler: "handlers/on-event", more: map[string]string{"src/go.mod": "module handler\n\ngo 1.22\n"}}
	}
	return map[[2]string]template{
		{"sh", string(Exec)}:       script("handlers/on-event", shExec),
		{"python", string(Exec)}:   script("handlers/on_event.py", pythonExec),
		{"node", string(Exec)}:     script("handlers/on-event.mjs", nodeExec),
		{"go", string(Exec)}:       program(goExec),
		{"python", string(Worker)}: script("handlers/on_event.py", pythonWorker),
		{"node", string(Worker)}:   script("handlers/on-event.mjs", nodeWorker),
		{"go", string(Worker)}:     program(goWorker),
	}
}

const shExec = `#!/bin/sh
# The event, a CloudEvent in JSON, is on standard input. Exit code 0: done; 75: try again later; 65: give this event up.
set -eu
event=$(cat)
echo "handled $SLUICE_EVENT_TYPE on $SLUICE_EVENT_PATH, attempt $SLUICE_ATTEMPT"
`

const pythonExec = `#!/usr/bin/env python3
# The event, a CloudEvent in JSON, is on standard input. Exit code 0: done; 75: try again later; 65: give this event up.
import json
import sys

event = json.load(sys.stdin)
print(f"handled {event['type']} on {event['path']}")
`

const nodeExec = `#!/usr/bin/env node
// The event, a CloudEvent in JSON, is on standard input. Exit code 0: done; 75: try again later; 65: give this event up.
import { readFileSync } from "node:fs";

const event = JSON.parse(readFileSync(0, "utf8"));
console.log("handled " + event.type + " on " + event.path);
`

const goExec = `// The event, a CloudEvent in JSON, is on standard input. Exit code 0: done; 75: try again later; 65: give this event up.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	var event struct{ Type, Path string }
	if err := json.NewDecoder(os.Stdin).Decode(&event); err != nil {
		fmt.Println(err)
		os.Exit(65)
	}
	fmt.Println("handled", event.Type, "on", event.Path)
}
`

const pythonWorker = `#!/usr/bin/env python3
# Each line on standard input is an event, and each line on standard output an answer. Log to standard error.
# One event at a time; for several at once, hand messages to threads, and answer under a lock.
import json
import sys


def handle(event, attempt):
    """Handle one event. Return {"ok": True}, {"retry": "why", "after": "10s"} or {"dead": "why"}."""
    print(f"handled {event['type']} on {event['path']}", file=sys.stderr)
    return {"ok": True}


def say(message):
    print(json.dumps(message), flush=True)


say({"ready": True})
for line in sys.stdin:
    message = json.loads(line)
    try:
        answer = handle(message["event"], message["attempt"])
    except Exception as error:
        answer = {"retry": repr(error)}
    say({"id": message["id"], **answer})
`

const nodeWorker = `#!/usr/bin/env node
// Each line on standard input is an event, and each line on standard output an answer. Log to standard error.
import { createInterface } from "node:readline";

// Handles one event. Returns { ok: true }, { retry: "why", after: "10s" } or { dead: "why" }.
async function handle(event, attempt) {
  console.error("handled " + event.type + " on " + event.path);
  return { ok: true };
}

const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");

createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, event, attempt } = JSON.parse(line);
  const answer = await handle(event, attempt).catch((error) => ({ retry: String(error) }));
  say({ id, ...answer });
});
say({ ready: true });
`

const goWorker = `// Each line on standard input is an event, and each line on standard output an answer. Log to standard error.
package main

import (
	"encoding/json"
	"log"
	"os"
	"sync"
	"time"
)

type message struct {
	ID       string
	Attempt  int
	Deadline time.Time
	Event    struct {
		Type, Path string
		Data       json.RawMessage
	}
}

type answer struct {
	ID    string ` + "`json:\"id\"`" + `
	OK    bool   ` + "`json:\"ok,omitempty\"`" + `
	Retry string ` + "`json:\"retry,omitempty\"`" + ` // why
	After string ` + "`json:\"after,omitempty\"`" + ` // with Retry: such as "10s"
	Dead  string ` + "`json:\"dead,omitempty\"`" + `  // why
}

func handle(m message) answer {
	log.Println("handled", m.Event.Type, "on", m.Event.Path)
	return answer{OK: true}
}

func main() {
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(v any) {
		mu.Lock()
		defer mu.Unlock()
		if err := out.Encode(v); err != nil {
			log.Fatal(err)
		}
	}
	say(map[string]bool{"ready": true})
	for in := json.NewDecoder(os.Stdin); ; {
		var m message
		if err := in.Decode(&m); err != nil {
			log.Fatal(err)
		}
		go func() {
			a := handle(m)
			a.ID = m.ID
			say(a)
		}()
	}
}
`
