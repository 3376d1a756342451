package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const manySubs = "POST /v1/subscriptions/batch"

// wanted is a subscription to a path of its own; more are further members.
func wanted(path, more string) string {
	return `{"pattern":"` + path + `","endpoint":{"url":"` + hook + `"}` + more + `}`
}

// count is the number of subscriptions.
func (b *bench) count(t *testing.T) int {
	t.Helper()
	return len(b.must(t, http.StatusOK, "GET /v1/subscriptions?limit=1000", "").list(t, "subscriptions"))
}

// Each item has the status, code, message and details that its own request has.
func TestBatch_ItemsStandAlone(t *testing.T) {
	t.Parallel()
	refused := []string{
		`{"endpoint":{"url":"` + hook + `"}}`, wanted("/x", `,"colour":"red"`), wanted("/x", `,"pattern":"/y"`), wanted("/x", `,"Namespace":"default"`),
		wanted("/x", `,"namespace":"none"`), `{"pattern":"/x","endpoint":{"url":"http://192.0.2.1/"}}`, `{"pattern":"/x","endpoint":{"url":"https://10.0.0.1/"}}`,
		wanted("/x", `,"filter":{"cel":"1 +"}`), wanted("/x", `,"id":"there"`), wanted("/x", `,"id":"a/b"`), `7`, `null`, `[]`, "\"\xff\"",
	}
	for _, form := range []struct{ media, begin, between, end string }{
		{"application/json", " [", " ,\n", "] "}, {"application/x-ndjson", "\n", "\r\n\n", ""}, {"application/jsonl; charset=utf-8", "", "\n", "\n"},
	} {
		b := newBench(t)
		b.must(t, http.StatusCreated, "POST /v1/subscriptions", wanted("/there", `,"id":"there"`))
		items := append([]string{wanted("/there", `,"id":"there"`), wanted("/a", ""), wanted("/b", `,"id":"mine"`)}, refused...)
		a := b.must(t, http.StatusOK, manySubs, form.begin+strings.Join(items, form.between)+form.end, "Content-Type", form.media)
		require.Equal(t, "application/json", a.header.Get("Content-Type"))
		results := a.list(t, "results")
		require.Len(t, results, len(items))
		require.Equal(t, []any{1.0, 2.0, float64(len(refused))}, []any{a.body["exists"], a.body["created"], a.body["failed"]})
		require.Equal(t, map[string]any{"index": 0.0, "status": "exists", "id": "there"}, results[0])
		for i, id := range []string{results[1]["id"].(string), "mine"} {
			sub := b.must(t, http.StatusOK, "GET /v1/subscriptions/"+id, "")
			secret, _ := results[i+1]["secret"].(string)
			require.Equal(t, map[string]any{"index": float64(i + 1), "status": "created", "id": id, "secret": secret}, results[i+1])
			require.Equal(t, secret[len(secret)-4:], sub.body["secret_hint"])
		}
		for i, item := range refused {
			alone := b.do(t, "POST /v1/subscriptions", item)
			require.GreaterOrEqual(t, alone.status, 400, item)
			require.Equal(t, map[string]any{"index": float64(i + 3), "status": "error", "error": alone.body["error"]}, results[i+3], item)
		}
		require.Equal(t, 3, b.count(t))
	}
}

func TestBatch_RefusesOtherBodies(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	many := strings.Repeat("7,", 1000) + "7"
	tests := []struct{ media, body, says string }{
		{"application/json", ``, "write a JSON array"},
		{"application/json", `[{"pattern":"/a"}`, "write a JSON array"},
		{"application/json", wanted("/a", ""), "write a JSON array"},
		{"application/json", `{"subscriptions":[]}`, "write a JSON array"},
		{"application/json", `[]`, "use 1 to 1000"},
		{"application/json", "[" + many + "]", "use 1 to 1000"},
		{"application/x-ndjson", "\n \n", "use 1 to 1000"},
		{"application/x-ndjson", strings.ReplaceAll(many, ",", "\n"), "use 1 to 1000"},
	}
	for _, tt := range tests {
		a := b.must(t, http.StatusBadRequest, manySubs, tt.body, "Content-Type", tt.media)
		require.Contains(t, a.text, tt.says, tt.body)
	}
	b.must(t, http.StatusBadRequest, manySubs+"?dry_run=yes", "["+wanted("/a", "")+"]")
	b.must(t, http.StatusBadRequest, manySubs+"?namespace=acme", "["+wanted("/a", "")+"]")
	b.must(t, http.StatusRequestEntityTooLarge, manySubs, strings.Repeat(" ", 65<<10))
	require.Zero(t, b.count(t))
}

// Of equal items one is created.
func TestBatch_CreatesEachOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const different = 20
	items := make([]string, 2*different)
	for i := range items {
		items[i] = wanted(fmt.Sprintf("/%d", i/2), "")
	}
	for _, created := range []float64{different, 0} {
		a := b.must(t, http.StatusOK, manySubs, "["+strings.Join(items, ",")+"]")
		require.Equal(t, []any{created, 2*different - created, 0.0}, []any{a.body["created"], a.body["exists"], a.body["failed"]}, a.text)
		results := a.list(t, "results")
		for i := range different {
			require.Equal(t, results[2*i]["id"], results[2*i+1]["id"])
		}
	}
	require.Equal(t, different, b.count(t))
}

// A dry run answers as the batch would, and nothing is stored, not even in the ledger.
func TestBatch_DryRunStoresNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(t, http.StatusCreated, "POST /v1/subscriptions", wanted("/there", `,"id":"there"`))
	entries := len(b.must(t, http.StatusOK, "GET /v1/audit", "").list(t, "entries"))
	body := "[" + strings.Join([]string{
		wanted("/there", `,"id":"there"`), wanted("/new", ""), wanted("/new", ""), wanted("/a", `,"id":"a"`), wanted("/a", `,"id":"a"`), wanted("/b", `,"id":"a"`),
		wanted("/k", `,"idempotency_key":"k"`), wanted("/k", ""), wanted("/l", `,"idempotency_key":"k"`), wanted("/x", `,"colour":"red"`),
	}, ",") + "]"
	a := b.must(t, http.StatusOK, manySubs+"?dry_run=true", body)
	var statuses []any
	for _, result := range a.list(t, "results") {
		require.Nil(t, result["secret"])
		statuses = append(statuses, result["status"])
	}
	require.Equal(t, []any{"exists", "created", "exists", "created", "exists", "error", "created", "exists", "error", "error"}, statuses, a.text)
	require.Equal(t, 1, b.count(t))
	require.Len(t, b.must(t, http.StatusOK, "GET /v1/audit", "").list(t, "entries"), entries)

	made := b.must(t, http.StatusOK, manySubs+"?dry_run=false", body)
	require.Equal(t, []any{a.body["created"], a.body["exists"], a.body["failed"]}, []any{made.body["created"], made.body["exists"], made.body["failed"]}, made.text)
}
