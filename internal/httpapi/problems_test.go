package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/problem"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// oneProblem is a problem of the event at a sequence.
type oneProblem struct {
	httpapi.Problems

	b   *bench
	sub string
	seq uint64

	changes int
}

func (p *oneProblem) Get(ctx context.Context, id string) (problem.Found, error) {
	sub, err := p.b.registry.Get(ctx, p.sub)
	return problem.Found{Problem: sluice.Problem{ID: id, Answer: "echo"}, Sub: sub, Path: "/a", Seq: p.seq}, err
}

func (p *oneProblem) Change(context.Context, string, sluice.ProblemChange, string) error {
	p.changes++
	return nil
}

// S0-56, S4-90: the answer of an endpoint may repeat the event, so the owner gets it only with the event.
func TestProblem_AnswerIsShownWithItsEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	opts, of := b.options(), &oneProblem{b: b}
	opts.Problems = of
	ann := b.grantee(t, opts, sluice.VerbSubscribe)
	id, _ := b.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"pattern":"/**","endpoint":{"url":"`+hook+`"}}`, ann...).body["id"].(string)
	of.sub = id
	b.must(t, http.StatusCreated, "POST "+events, `{"path":"/a"}`)
	b.must(t, http.StatusCreated, "POST "+events, `{"specversion":"1.0","id":"s","source":"/s","type":"t","path":"/a","dataclassification":"SECRET"}`)
	for seq, want := range map[uint64]any{1: "echo", 2: nil, 3: nil} {
		of.seq = seq
		require.Equal(t, want, b.must(t, http.StatusOK, "GET /v1/problems/p", "", ann...).body["answer"], seq)
		require.Equal(t, "echo", b.must(t, http.StatusOK, "GET /v1/problems/p", "").body["answer"], seq)
	}
}

// lateBody is a body that waits until the server reads it, and then lets something happen first.
type lateBody struct {
	io.Reader

	first func()
}

func (b *lateBody) Read(p []byte) (int, error) {
	b.first()
	return b.Reader.Read(p)
}

// The subscription of a problem may be another principal's by the time the body of a change arrives.
func TestProblem_ChangeNeedsTheRightWithTheBody(t *testing.T) { // S0-56
	t.Parallel()
	b := newBench(t)
	opts, of := b.options(), &oneProblem{b: b}
	opts.Problems = of
	ann := b.grantee(t, opts, sluice.VerbSubscribe)
	hers, _ := b.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"pattern":"/**","endpoint":{"url":"`+hook+`"}}`, ann...).body["id"].(string)
	theirs := b.subscription(t, hook+"/other")
	patient := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	for meanwhile, want := range map[string]int{hers: http.StatusOK, theirs: http.StatusNotFound} {
		of.sub, of.changes = hers, 0
		late := &lateBody{strings.NewReader(`{"state":"ignored"}`), func() { of.sub = meanwhile }}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, b.http.URL+"/v1/problems/p", late)
		require.NoError(t, err)
		req.Header.Set(ann[0], ann[1])
		req.Header.Set("Expect", "100-continue")
		answer, err := patient.Do(req)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.StatusCode)
		require.Equal(t, want == http.StatusOK, of.changes == 1)
	}
}
