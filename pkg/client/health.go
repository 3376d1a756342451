package client

import (
	"context"
	"net/http"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// ProbeSubscription makes the next probe of an open breaker due at once, with an event if one waits. It returns the replay that does so;
// code Conflict unless the subscription is active.
func (c *Client) ProbeSubscription(ctx context.Context, id string) (sluice.Replay, error) {
	return send[sluice.Replay](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "probe"), once: true}, nil)
}

// RetryLanes makes all parked lanes of a subscription due at once, and retries held ones starting at attempt 1. An open breaker
// probes. It returns the replay that does so; code Conflict unless the subscription is active.
func (c *Client) RetryLanes(ctx context.Context, id string) (sluice.Replay, error) {
	return send[sluice.Replay](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "retry"), once: true}, nil)
}

// HealthQuery filters the health of subscriptions; all fields are optional.
type HealthQuery struct {
	Namespace string
	Health    []sluice.Health // any of them
	Limit     int
	Cursor    string // HealthPage.Next of the previous page
	Sparkline bool   // with the attempts of the last day
}

// HealthPage is one page of the health of subscriptions.
type HealthPage struct {
	Subscriptions []sluice.SubscriptionHealth `json:"subscriptions"`
	Counts        map[sluice.Health]int       `json:"counts"` // of all that you manage, by health
	Next          string                      `json:"next_cursor"`
}

// Health returns the subscriptions that you manage by the health of their deliveries, worst first.
func (c *Client) Health(ctx context.Context, q HealthQuery) (HealthPage, error) {
	names := make([]string, len(q.Health))
	for i, h := range q.Health {
		names[i] = string(h)
	}
	sparkline := ""
	if q.Sparkline {
		sparkline = "true"
	}
	query := params("sparkline", sparkline, "namespace", q.Namespace, "health", strings.Join(names, ","), "limit", number(q.Limit), "cursor", q.Cursor)
	return send[HealthPage](ctx, c, call{method: http.MethodGet, path: "/v1/health/subscriptions", query: query}, nil)
}

// Overview sums up the subscriptions that you manage, of a namespace or, if it is empty, of all.
func (c *Client) Overview(ctx context.Context, namespace string) (sluice.Overview, error) {
	return send[sluice.Overview](ctx, c, call{method: http.MethodGet, path: "/v1/overview", query: params("namespace", namespace)}, nil)
}

// StatisticsQuery selects statistics; all fields are optional.
type StatisticsQuery struct {
	Since string // a time, or an age such as 6h; a day at most, and an hour in steps of a minute
	Step  string // 1m, 5m or 1h
}

// Statistics returns the attempts of a subscription over the last day, in steps.
func (c *Client) Statistics(ctx context.Context, id string, q StatisticsQuery) (sluice.Statistics, error) {
	query := params("since", q.Since, "step", q.Step)
	return send[sluice.Statistics](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, "statistics"), query: query}, nil)
}

// ProblemsQuery filters problems; all fields are optional.
type ProblemsQuery struct {
	Namespace    string
	Subscription string
	State        sluice.ProblemState
	Limit        int
	Cursor       string // ProblemPage.Next of the previous page
}

// ProblemPage is one page of problems.
type ProblemPage struct {
	Problems []sluice.Problem            `json:"problems"`
	Counts   map[sluice.ProblemState]int `json:"counts"` // of all that you may see, by state
	Next     string                      `json:"next_cursor"`
}

const problems = "/v1/problems"

// Problems returns the problems of the subscriptions that you manage: the open ones first, and of these the oldest.
func (c *Client) Problems(ctx context.Context, q ProblemsQuery) (ProblemPage, error) {
	query := params("namespace", q.Namespace, "subscription", q.Subscription, "state", string(q.State), "limit", number(q.Limit), "cursor", q.Cursor)
	return send[ProblemPage](ctx, c, call{method: http.MethodGet, path: problems, query: query}, nil)
}

// Problem returns a problem.
func (c *Client) Problem(ctx context.Context, id string) (sluice.Problem, error) {
	return send[sluice.Problem](ctx, c, call{method: http.MethodGet, path: join(problems, id)}, nil)
}

// ChangeProblem acknowledges, ignores or reopens a problem, or changes its note. Code Conflict if it is resolved.
func (c *Client) ChangeProblem(ctx context.Context, id string, change sluice.ProblemChange) (sluice.Problem, error) {
	return send[sluice.Problem](ctx, c, call{method: http.MethodPatch, path: join(problems, id)}, change)
}
