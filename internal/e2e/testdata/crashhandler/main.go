// Command crashhandler is a handler of a module that tells a test what it does: when it begins, and when its work is done.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run says "<event> <pid>", works, says "done", and exits as the answer says.
func run() error {
	test, err := net.Dial("unix", os.Args[1])
	if err != nil {
		return err
	}
	if os.Getenv("SLUICE_EVENT_SEQ") != "" && os.Getenv("SLUICE_ATTEMPT") == "1" { // one that would outlive it
		left := exec.Command("/bin/sleep", "1000")
		left.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := left.Start(); err != nil {
			return err
		}
	}
	_, _ = fmt.Fprintf(test, "%s %d\n", os.Getenv("SLUICE_EVENT_ID"), os.Getpid())
	time.Sleep(2 * time.Millisecond)
	_, _ = fmt.Fprintln(test, "done")
	answer, err := bufio.NewReader(test).ReadString('\n')
	if err != nil {
		return err
	}
	if answer == "fail\n" {
		os.Exit(75)
	}
	return nil
}
