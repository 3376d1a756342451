package reference

import (
	_ "embed"
	"strings"
)

// callsInGo is the source of the examples of the Go client. It is a test, so they are compiled and
// run.
//
//go:embed calls_test.go
var callsInGo string

// goCalls returns the examples in Go, by operation. They are the cases of the function call, in the
// form in which a caller would write them.
func goCalls() map[string]string {
	calls := map[string]string{}
	for _, part := range strings.Split(callsInGo, "\n\tcase \"")[1:] {
		operation, body, _ := strings.Cut(part, "\":\n")
		body, _, _ = strings.Cut(body, "\n\t}\n")
		var lines []string
		for line := range strings.Lines(body) {
			line = strings.TrimPrefix(strings.TrimRight(line, "\n"), "\t\t")
			made, isReturn := strings.CutPrefix(line, "return ")
			failing, onlyError := strings.CutPrefix(made, "nil, ")
			switch {
			case isReturn && onlyError:
				line = "err := " + failing
			case isReturn && strings.HasPrefix(made, "c."):
				line = "result, err := " + made
			case isReturn:
				continue // of the function
			case strings.TrimSpace(line) == "return item, err":
				line = "\tfmt.Println(item, err)"
			}
			lines = append(lines, line)
		}
		calls[operation] = strings.Join(lines, "\n")
	}
	return calls
}
