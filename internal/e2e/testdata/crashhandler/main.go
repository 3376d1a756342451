// Command crashhandler is a handler of a module that tells a test what it does: when it begins, and when its work is done. If the test
// lets it, it publishes two events.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run handles the event of a program, or with "worker" as the second argument each one that a worker gets.
func run() error {
	if len(os.Args) < 3 {
		well, err := handle(os.Getenv("SLUICE_EVENT_ID"), os.Getenv("SLUICE_EVENT_SEQ") != "" && os.Getenv("SLUICE_ATTEMPT") == "1")
		if err == nil && !well {
			os.Exit(75)
		}
		for _, made := range made(os.Getenv("SLUICE_EVENT_PATH"), os.Getenv("SLUICE_EVENT_ID")) {
			fmt.Println(string(made))
		}
		return err
	}
	var one sync.Mutex
	answers := json.NewEncoder(os.Stdout)
	if err := answers.Encode(map[string]bool{"ready": true}); err != nil {
		return err
	}
	for messages := json.NewDecoder(os.Stdin); ; {
		var message struct {
			ID      string
			Attempt int
			Event   struct{ ID, Path string }
		}
		if err := messages.Decode(&message); err != nil {
			return err
		}
		go func() {
			well, err := handle(message.Event.ID, message.Attempt == 1)
			answer := map[string]any{"id": message.ID, "ok": true, "events": made(message.Event.Path, message.Event.ID)}
			if err != nil || !well {
				answer = map[string]any{"id": message.ID, "retry": "told to"}
			}
			one.Lock()
			defer one.Unlock()
			_ = answers.Encode(answer) // the server may be gone
		}()
	}
}

// made returns what is published for an event.
func made(path, id string) (lines []json.RawMessage) {
	for part := range 2 {
		lines = append(lines, json.RawMessage(fmt.Sprintf(`{"path":"/made/%s","type":"made","data":{"of":%q,"part":%d}}`, filepath.Base(path), id, part)))
	}
	return lines
}

// handle says "<event> <pid>", works, says "done", and returns whether the answer is well.
func handle(event string, leaves bool) (well bool, err error) {
	test, err := net.Dial("unix", os.Args[1])
	if err != nil {
		return false, err
	}
	defer test.Close()
	if leaves { // one that would outlive it
		left := exec.Command("/bin/sleep", "1000")
		left.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := left.Start(); err != nil {
			return false, err
		}
	}
	_, _ = fmt.Fprintf(test, "%s %d\n", event, os.Getpid())
	time.Sleep(2 * time.Millisecond)
	_, _ = fmt.Fprintln(test, "done")
	answer, err := bufio.NewReader(test).ReadString('\n')
	return answer == "well\n", err
}
