package httpapi_test

import (
	"context"
	"net/http"
	"testing"

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
}

func (p *oneProblem) Get(ctx context.Context, id string) (problem.Found, error) {
	sub, err := p.b.registry.Get(ctx, p.sub)
	return problem.Found{Problem: sluice.Problem{ID: id, Answer: "echo"}, Sub: sub, Path: "/a", Seq: p.seq}, err
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
