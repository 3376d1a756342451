// Command crashhandler is a handler of a module that tells a test what it does: when it begins, and when its work is done.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
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
			Event   struct{ ID string }
		}
		if err := messages.Decode(&message); err != nil {
			return err
		}
		go func() {
			well, err := handle(message.Event.ID, message.Attempt == 1)
			answer := map[string]any{"id": message.ID, "ok": true}
			if err != nil || !well {
				answer = map[string]any{"id": message.ID, "retry": "told to"}
			}
			one.Lock()
			defer one.Unlock()
			_ = answers.Encode(answer) // the server may be gone
		}()
	}
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
