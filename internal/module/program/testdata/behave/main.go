// Command behave is one way in which a program of a module behaves: the first argument names it.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

func main() {
	ways := map[string]func(){
		"exit":    exit,
		"signal":  func() { end(syscall.SIGTERM) },
		"slow":    func() { time.Sleep(100 * time.Millisecond); fmt.Println("done") },
		"hang":    func() { fmt.Println("on"); hang() },
		"ignore":  func() { signal.Ignore(syscall.SIGTERM); write("on", 0); hang() },
		"fork":    fork,
		"bomb":    bomb,
		"flood":   func() { os.Stdout.Write(bytes.Repeat([]byte("x"), 4_000_000)); fmt.Fprintln(os.Stderr, "end") },
		"half":    func() { fmt.Println("half"); end(syscall.SIGKILL); fmt.Println("done") },
		"eat":     eat,
		"files":   func() { many(1000, 0) },
		"removed": removed,
		"bytes":   func() { many(8, 4<<20) },
	}
	ways[os.Args[1]]()
}

func exit() {
	code, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	os.Exit(code)
}

func end(with syscall.Signal) {
	if err := syscall.Kill(os.Getpid(), with); err != nil {
		panic(err)
	}
	hang()
}

func hang() { time.Sleep(1000 * time.Second) }

func write(name string, size int) {
	if err := os.WriteFile(filepath.Join(os.Getenv("TMPDIR"), name), make([]byte, size), 0o600); err != nil {
		panic(err)
	}
}

func removed() {
	path := filepath.Join(os.Getenv("TMPDIR"), "x")
	var files []*os.File
	for range 8 {
		file, err := os.Create(path)
		if err != nil {
			panic(err)
		}
		files = append(files, file)
		os.Remove(path)
		file.Write(make([]byte, 4<<20))
	}
	hang()
	_ = files
}

func fork() {
	for range 20 {
		child := exec.Command("sleep", "1000")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			panic(err)
		}
	}
	fmt.Println("forked 20")
}

func bomb() {
	for {
		child := exec.Command(os.Args[0], "bomb")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = child.Start() // or there are too many
	}
}

func eat() {
	var all [][]byte
	for {
		all = append(all, make([]byte, 1<<26))
	}
}

func many(files, size int) {
	for i := range files {
		write(strconv.Itoa(i), size)
	}
	hang()
}
