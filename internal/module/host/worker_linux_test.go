package host_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/module/host"
	"github.com/sluice-io/sluice/internal/module/program"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestWorker_AnswersDecide(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, python(t, `
if "say" in do: print(do.pop("say"), file=sys.stderr, flush=True)
answer(message, **do)`), "")
	for _, c := range []struct {
		do   map[string]any
		want sluice.Attempt
	}{
		{map[string]any{"ok": true}, sluice.Attempt{Outcome: sluice.Delivered}},
		{map[string]any{"retry": "no stock", "after": "10s"}, sluice.Attempt{Outcome: sluice.Failed, Error: "the worker asked for another attempt: no stock", RetryAfter: 10 * time.Second}},
		{map[string]any{"dead": "no such order"}, sluice.Attempt{Outcome: sluice.Refused, Dead: sluice.HandlerRefused, Error: "the worker refused the event: no such order"}},
	} {
		a := s.send(t, "e", 3, c.do)
		require.Equal(t, c.want, sluice.Attempt{Outcome: a.Outcome, Error: a.Error, RetryAfter: a.RetryAfter, Dead: a.Dead})
	}
}

// One process handles all events, many at once, and each gets the answer to its own.
func TestWorker_HandlesManyAtOnce(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, python(t, `
held = globals().setdefault("held", [])
held.append((message, event["id"]))
if len(held) == 8:
    for m, id in reversed(held): answer(m, retry=id + " " + str(os.getpid()) + " " + str(m["attempt"]))
    held.clear()`), `,"concurrency":8`)
	pids := map[string]bool{}
	for _, a := range s.sendAll(t, 16, nil) {
		var id, pid, number string
		_, err := fmt.Sscanf(a.Error, "the worker asked for another attempt: %s %s %s", &id, &pid, &number)
		require.NoError(t, err, a.Error)
		require.Equal(t, []string{a.EventID, strconv.Itoa(a.Number)}, []string{id, number})
		pids[pid] = true
	}
	require.Len(t, pids, 1)
}

// The answers of each language's template are understood.
func TestWorker_SpeaksEachLanguage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ program, text string }{
		"sh": {"sh", `#!/bin/sh
echo '{"ready":true}'
while read -r line; do
  id=${line#'{"id":"'}
  echo "{\"id\":\"${id%%\"*}\",\"ok\":true}"
done
`},
		"node": {"node", `#!/usr/bin/env node
const say = (o) => process.stdout.write(JSON.stringify(o) + "\n");
require("readline").createInterface({ input: process.stdin }).on("line", (line) => say({ id: JSON.parse(line).id, ok: true }));
say({ ready: true });
`},
		"go": {"go", `package main

import ("encoding/json"; "os")

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	_ = out.Encode(map[string]any{"ready": true})
	for {
		var m struct{ ID string }
		if in.Decode(&m) != nil { return }
		_ = out.Encode(map[string]any{"id": m.ID, "ok": true})
	}
}
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.program); err != nil {
				t.Skip("needs " + c.program)
			}
			text := c.text
			if name == "go" {
				text = compiled(t, text)
			}
			s := newWorkshop(t, text, "")
			for _, a := range s.sendAll(t, 8, nil) {
				require.Equal(t, sluice.Delivered, a.Outcome, a)
			}
		})
	}
}

// An event that is not answered in time fails, and its worker is replaced. One beside it is still answered.
func TestWorker_HangingEventHarmsNoOther(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, threaded(t), `,"timeout":"60s"`)
	before := s.send(t, "pid", 1, "pid").Error
	var beside sluice.Attempt
	var wg sync.WaitGroup
	wg.Go(func() { beside = s.send(t, "beside", 1, "wait, pid") })
	s.saw(t, "beside")
	a := s.within(50*time.Millisecond).send(t, "hangs", 1, "hang")
	require.Equal(t, []any{sluice.Failed, "the worker did not answer within 50ms, and is replaced"}, []any{a.Outcome, a.Error})
	require.NotEqual(t, before, s.send(t, "pid", 1, "pid").Error, "another worker takes new events")
	s.goes()
	wg.Wait()
	require.Equal(t, before, beside.Error, "its worker has answered")
}

// What a worker did when it died is told by the attempt, with its log.
func TestWorker_CrashFailsTheAttempt(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, threaded(t), "")
	const crashed = "the worker crashed at this event: "
	for do, want := range map[string]string{
		"crash":        crashed + "the program ended with exit code 3: about to crash",
		"die half-way": crashed + "the program ended with exit code 4",
		"kill":         crashed + "the program was ended by signal 11 (segmentation fault)",
		"print":        crashed + `"hello" on standard output is no answer to an event`,
		"flood":        crashed + `"xxx`,
		"long":         crashed + "a line on its standard output has more than 1048576 bytes",
		"unknown":      crashed + `the answer to "999" is to no event that the worker has`,
	} {
		a := s.send(t, do, 1, do)
		require.Equal(t, sluice.Failed, a.Outcome, do)
		require.Contains(t, a.Error, want)
		require.Equal(t, do == "crash", a.Output == "about to crash\n", do)
		require.Equal(t, sluice.Delivered, s.send(t, "good", 1, "").Outcome)
	}
}

// An answer that comes twice ends its worker; the event stays handled.
func TestWorker_AnswerTwiceEndsIt(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, threaded(t), "")
	before := s.send(t, "pid", 1, "pid").Error
	require.Equal(t, sluice.Delivered, s.send(t, "e", 1, "twice").Outcome)
	require.Eventually(t, func() bool { return s.send(t, "pid", 1, "pid").Error != before }, patience, time.Millisecond)
}

// Events that were with another when it had the worker crash are handled all the same: none of their attempts fails.
func TestWorker_CrashHarmsNoOther(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, threaded(t), `,"timeout":"60s"`)
	require.Equal(t, sluice.Delivered, s.send(t, "warm", 1, "").Outcome)
	first := s.files("")
	ctx, over := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			s.goes(first...) // in workers that come later
			<-time.After(time.Millisecond)
		}
	})
	all := s.sendAll(t, 4, func(i int) any { return map[bool]string{true: "crash with all", false: "wait"}[i == 2] })
	over()
	wg.Wait()
	for i, a := range all {
		want := sluice.Delivered
		if i == 2 {
			want = sluice.Failed
			require.Contains(t, a.Error, "crashed at this event: the program ended with exit code 3")
		}
		require.Equal(t, want, a.Outcome, a)
	}
}

// An event at which workers crash, while they handle others, is given up.
func TestWorker_PoisonIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, threaded(t), "")
	require.Equal(t, sluice.Failed, s.send(t, "bad", 1, "crash").Outcome)
	require.Equal(t, sluice.Failed, s.send(t, "bad", 2, "crash").Outcome, "no other was handled")
	require.Equal(t, sluice.Delivered, s.send(t, "good", 1, "").Outcome)
	a := s.send(t, "bad", 3, "crash")
	require.Equal(t, []any{sluice.Refused, sluice.HandlerCrashed}, []any{a.Outcome, a.Dead})
	require.Contains(t, a.Error, "handled others in between: the program ended with exit code 3: about to crash")
}

// A worker that fills its temporary directory has crashed.
func TestWorker_TemporaryDirectoryIsBounded(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, python(t, `
for i in range(do): open(os.environ["TMPDIR"] + "/" + event["id"] + str(i), "w").close()
if do < 100: answer(message, ok=True)`), `,"limits":{"tempFiles":100}`)
	for _, id := range []string{"a", "b"} {
		require.Equal(t, sluice.Delivered, s.send(t, id, 1, 40).Outcome)
	}
	a := s.send(t, "c", 1, 110)
	require.Equal(t, []any{sluice.Failed, "the worker crashed at this event: the program was ended: its temporary directory has more than 100 files"}, []any{a.Outcome, a.Error})
	require.Equal(t, sluice.Delivered, s.send(t, "d", 1, 1).Outcome, "by the next one")
}

// A worker that does not become ready fails the attempts, with its reason.
func TestWorker_MustBecomeReady(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ script, ready, want string }{
		{"echo 'no module named x' >&2; exit 1", "1m", "the program ended with exit code 1: no module named x"},
		{"sleep 1000", "100ms", "it was not ready within 100ms"},
		{"echo hello; sleep 1000", "1m", `the first line on standard output is "hello", not {"ready":true}`},
		{"exec >&-; sleep 1000", "100ms", "it was not ready within 100ms"},
	} {
		s := newWorkshop(t, "#!/bin/sh\n"+c.script+"\n", fmt.Sprintf(`,"ready":%q`, c.ready))
		a := s.send(t, "e", 1, nil)
		require.Equal(t, sluice.Failed, a.Outcome)
		require.Contains(t, a.Error, "the worker did not become ready: "+c.want)
		require.Equal(t, strings.Contains(c.script, ">&2"), a.Output == "no module named x\n")
	}
}

// A worker gets the variables of its subscription, and none of an event.
func TestWorker_EnvironmentIsClean(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, threaded(t), "")
	a := s.send(t, "e", 1, "env")
	require.Equal(t, "the worker asked for another attempt: HOME LANG LC_CTYPE PATH SLUICE_MODULE SLUICE_NAMESPACE SLUICE_RUN SLUICE_SUBSCRIPTION TMPDIR",
		strings.Replace(a.Error, "LANG PATH", "LANG LC_CTYPE PATH", 1))
}

// A worker has the restrictions of a program, and secrets of its environment are masked in its log and its answers.
func TestWorker_IsRestrictedAndMasked(t *testing.T) {
	t.Setenv("MODULE_KEY", "open sesame")
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("hidden"), 0o600))
	s := newWorkshop(t, threaded(t), `,"env":["MODULE_KEY"]`)
	a := s.send(t, "e", 1, secret)
	if slices.Contains(program.InForce(), "files (Landlock)") {
		require.Equal(t, "the worker asked for another attempt: Permission denied ***", a.Error)
	}
	require.NotContains(t, a.Error, "sesame")
	require.Eventually(t, func() bool { return s.send(t, "e", 1, secret).Output == "key is ***\n" }, patience, time.Millisecond)
}

// The events of an answer are published under the rules of printed ones, and need the declaration.
func TestWorker_PublishesItsEvents(t *testing.T) {
	t.Parallel()
	script := python(t, `
print("made an invoice", file=sys.stderr, flush=True)
answer(message, ok=True, events=do)`)
	const declared = `,"output":"events","publish":[{"pattern":"/invoices/**"}]`
	good := []any{map[string]any{"path": "/invoices/1", "type": "made"}, map[string]any{"path": "/invoices/2", "type": "made"}}
	try := func(members string, events any) host.Trial {
		s := newWorkshop(t, script, members)
		m, err := s.host.Found("m")
		require.NoError(t, err)
		trial, err := host.Try(t.Context(), m, "run", eventOf("e", events), render{})
		require.NoError(t, err)
		require.Equal(t, "made an invoice\n", trial.Output)
		return trial
	}
	trial := try(declared, good)
	require.Equal(t, []any{sluice.Delivered, ""}, []any{trial.Outcome, trial.Error})
	require.Len(t, trial.Events, 2)
	require.Equal(t, []any{sluice.Path("/invoices/2"), "e"}, []any{trial.Events[1].Path, trial.Events[1].Extensions[sluice.CausationID]})

	trial = try(declared, []any{good[0], map[string]any{"path": "/others/1", "type": "made"}})
	require.Equal(t, []any{sluice.Refused, sluice.OutputRefused}, []any{trial.Outcome, trial.Dead})
	require.Empty(t, trial.Events)

	trial = try("", good)
	require.Equal(t, []any{sluice.Failed, `the worker's answer has events: set "output" to "events" in the manifest`}, []any{trial.Outcome, trial.Error})
}

// A changed module's worker finishes its events and ends. A disabled one has none.
func TestWorker_FollowsItsModule(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, threaded(t), `,"timeout":"60s"`)
	before := s.send(t, "pid", 1, "pid").Error
	var beside sluice.Attempt
	var wg sync.WaitGroup
	wg.Go(func() { beside = s.send(t, "beside", 1, "wait") })
	s.saw(t, "beside")
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "m", "more"), nil, 0o600))
	was := s.sub
	s.approve(t)
	require.NotEqual(t, before, s.send(t, "pid", 1, "pid").Error)
	s.goes()
	wg.Wait()
	require.Equal(t, sluice.Delivered, beside.Outcome, beside)
	require.Eventually(t, func() bool { return len(s.files("")) == 1 }, patience, time.Millisecond, "the other has ended")
	s.host.Set(t.Context(), "m", nil)
	require.Eventually(t, func() bool { return len(s.files("")) == 0 }, patience, time.Millisecond, "none is left")
	s.sub = was
	a := s.send(t, "e", 1, "")
	require.Empty(t, a.Outcome, "no attempt is made")
	require.Contains(t, a.Error, "does not run here")
}

// Workers without events are stopped, and started again for the next one.
func TestWorker_EndsWhenIdle(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, threaded(t), `,"processes":2`, func(o *host.Options) { o.Idle = 20 * time.Millisecond })
	require.Equal(t, sluice.Delivered, s.send(t, "e", 1, "").Outcome)
	require.Eventually(t, func() bool { return len(s.files("")) == 0 }, patience, time.Millisecond)
	require.Equal(t, sluice.Delivered, s.send(t, "e", 1, "").Outcome)
}

// An attempt whose context ends returns; its worker goes on.
func TestWorker_AttemptCanBeCutOff(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, threaded(t), `,"timeout":"60s"`)
	ctx, cancel := context.WithCancel(t.Context())
	var a sluice.Attempt
	var wg sync.WaitGroup
	wg.Go(func() { a = s.host.Send(ctx, s.sub, eventOf("cut", "wait"), 1) })
	s.saw(t, "cut")
	cancel()
	wg.Wait()
	require.Equal(t, []any{sluice.Failed, "the attempt was cut off: context canceled"}, []any{a.Outcome, a.Error})
	s.goes()
	require.Equal(t, sluice.Delivered, s.send(t, "e", 1, "").Outcome)
	require.Len(t, s.files(""), 1)
}

// A host that closes ends its workers, also those that ignore it.
func TestWorker_EndsWithItsHost(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, "#!/bin/sh\ntrap '' TERM\necho '{\"ready\":true}'\nwhile read -r line; do :; done; sleep 1000\n", `,"timeout":"60s"`)
	var a sluice.Attempt
	var wg sync.WaitGroup
	wg.Go(func() { a = s.send(t, "e", 1, nil) })
	require.Eventually(t, func() bool { return len(s.files("")) == 1 }, patience, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.host.Close(ctx)
	wg.Wait()
	require.NotEqual(t, sluice.Delivered, a.Outcome)
	require.Empty(t, s.files(""))
}

// Events that wait for a worker when its module stops are not attempted; an attempt with a worker goes on.
func TestWorker_StoppedModuleAttemptsNothing(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, threaded(t), `,"concurrency":1`)
	var has, waits sluice.Attempt
	var wg sync.WaitGroup
	wg.Go(func() { has = s.send(t, "has", 1, "wait") })
	s.saw(t, "has")
	wg.Go(func() { waits = s.send(t, "waits", 1, "") })
	require.Eventually(t, func() bool {
		m, err := s.host.Get("m")
		return err == nil && m.Running[0].Waiting == 1
	}, patience, time.Millisecond)
	s.host.Set(t.Context(), "m", nil)
	s.goes()
	wg.Wait()
	require.Equal(t, []sluice.Outcome{sluice.Delivered, ""}, []sluice.Outcome{has.Outcome, waits.Outcome})
	require.Contains(t, waits.Error, "does not run here any more")
}
