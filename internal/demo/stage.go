package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"
)

// statement is a sentence about the deliveries that was checked.
type statement struct {
	Act   int    `json:"act"`
	Text  string `json:"text"`
	Holds bool   `json:"holds"`
}

// stage prints the acts. In JSON, it prints nothing. It ignores errors of printing: if stdout has
// no reader, the context ends. act and statements are used by one goroutine; say may be called by
// several.
type stage struct {
	session    *terminal.Session
	paint      terminal.Painter
	act        int
	statements []statement

	mu sync.Mutex
}

func newStage(s *terminal.Session) *stage {
	return &stage{session: s, paint: s.Painter("auto", s.Watched)}
}

// say prints a line, unless the output is for programs.
func (g *stage) say(format string, args ...any) {
	if g.session.IsJSON() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.session.Say(format, args...)
}

// begin announces an act. At a terminal it pauses before and after, so that the user can read.
func (g *stage) begin(ctx context.Context, act int, title, text string) {
	g.act = act
	g.pause(ctx)
	g.say("\n%s\n%s", g.paint.Paint("1", fmt.Sprintf("Act %d: %s", act, title)), terminal.Clean(text))
	g.pause(ctx)
}

// pause waits a moment at a terminal, so that the user can read.
func (g *stage) pause(ctx context.Context) {
	if !g.session.Watched || g.session.IsJSON() {
		return
	}
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}

// holds prints a statement. If err is not nil, the statement does not hold; holds then prints the
// reason and returns it.
func (g *stage) holds(err error, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	g.statements = append(g.statements, statement{Act: g.act, Text: text, Holds: err == nil})
	if err != nil {
		g.say("%s %s", g.paint.Paint(terminal.Red, "✗"), text)
		return fmt.Errorf("demo: %s: %w", text, err)
	}
	g.say("%s %s", g.paint.Paint(terminal.Green, "✓"), text)
	return nil
}

// arrived prints one request at the receiver.
func (g *stage) arrived(a arrival) {
	if a.delivery == nil {
		g.say("  %s  %s", a.at.Format("15:04:05.000"), g.paint.Paint(terminal.Red, fmt.Sprintf("%d %s", a.status, a.err)))
		return
	}
	colour := terminal.Green
	if a.status >= failing {
		colour = terminal.Red
	}
	g.say("  %s  %-14s  %-14s  %-8s  attempt %d  verified  %s", a.at.Format("15:04:05.000"),
		a.delivery.Path, a.delivery.Type, a.delivery.ID, a.delivery.Attempt, g.paint.Paint(colour, strconv.Itoa(a.status)))
}

// output prints a command with its output.
func (g *stage) output(command, text string) {
	g.say("\n  $ %s", command)
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			g.say("  %s", line)
		}
	}
}

// playground prints commands for another terminal.
func (g *stage) playground(p *server, then string) {
	set := "export SLUICE_DATA='" + p.data + "'"
	if runtime.GOOS == "windows" {
		set = "$env:SLUICE_DATA = '" + p.data + "'"
	}
	name := program(p.program)
	g.say("\n%s", g.paint.Paint("1", "Playground"))
	g.say("The server and the receiver continue until ^C; %s. Paste into another terminal:\n", then)
	for _, line := range []string{
		set,
		name + ` pub /orders/7 '{"total": 118.5}' --type order.placed`,
		name + ` pub ` + string(stubborn) + ` '{"total": 13}' --id unlucky   # the receiver refuses this path twice`,
		name + " deliveries " + subscription + " unlucky",
		name + " sub ls",
		name + " status",
		name + " tail   # ^C ends it",
	} {
		g.say("    %s", line)
	}
	g.say("\nRequests at the receiver:")
}

// program returns how to call this program in a shell: sluice if that is this program, otherwise
// the path of its file.
func program(file string) string {
	found, err := exec.LookPath("sluice")
	if err != nil {
		return file
	}
	there, err := os.Stat(found)
	own, unknown := os.Stat(file)
	if err != nil || unknown != nil || !os.SameFile(there, own) {
		return file
	}
	return "sluice"
}
