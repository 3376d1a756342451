// Command worker is a worker of a module that handles each event at once.
package main

import (
	"bufio"
	"bytes"
	"os"
)

func main() {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriter(os.Stdout)
	_, _ = out.WriteString("{\"ready\":true}\n")
	for {
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		id, _, _ := bytes.Cut(line, []byte(",")) // {"id":"…"
		_, _ = out.Write(id)
		_, _ = out.WriteString(",\"ok\":true}\n")
	}
}
