package reference_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/sluice-io/sluice/internal/httpapi/reference"
	"github.com/sluice-io/sluice/pkg/client"
)

// notInGo are the operations that the client in Go does not have: health checks and CORS for others, other URLs of the same
// operation, and the subscriptions of Durable Streams, whose clients are those of that protocol.
var notInGo = regexp.MustCompile(`^(getProduct|livez|headLivez|healthz|headHealthz|headReadyz|getKeys|getProfile|callback|.*Options|streamKeys|` +
	`headMirrorStream|(put|get|delete)StreamSubscription|linkStreams|unlinkStream|(claim|callback|ack|release)Wake|(create|list)NamespaceSubscriptions?)$`)

// Each operation has an example in Go, which sends the request of the operation.
func TestPage_ExamplesInGoCallTheirOperation(t *testing.T) { // issue 18
	t.Parallel()
	text, err := os.ReadFile("../openapi.yaml")
	require.NoError(t, err)
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	require.NoError(t, yaml.Unmarshal(text, &document))
	page, err := reference.Page(text, "v1")
	require.NoError(t, err)

	var mu sync.Mutex
	var sent []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, r.Method+" "+r.URL.EscapedPath())
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer s.Close()
	c := client.New(s.URL, "token")
	for path, item := range document.Paths {
		for method, raw := range item {
			var operation struct {
				ID string `json:"operationId"`
			}
			if method == "parameters" || json.Unmarshal(raw, &operation) != nil {
				continue
			}
			sent = nil
			_, err := call(t.Context(), c, operation.ID)
			article, _, _ := strings.Cut(string(page)[strings.Index(string(page), `<article id="`+operation.ID+`">`):], "</article>")
			if notInGo.MatchString(operation.ID) {
				require.ErrorIs(t, err, errNoCall, operation.ID)
				require.NotContains(t, article, "<summary>Go</summary>", operation.ID)
				continue
			}
			require.NotErrorIs(t, err, errNoCall, operation.ID)
			want := regexp.MustCompile(`\{[^}]+\}`).ReplaceAllString(path, "[^/]+")
			if strings.HasSuffix(path, "/{path}") {
				want = strings.TrimSuffix(want, "[^/]+") + ".+"
			}
			require.Regexp(t, "^"+strings.ToUpper(method)+" "+want+"$", slices.Concat(sent, []string{""})[0], operation.ID)
			_, shown, _ := strings.Cut(article, "<summary>Go</summary><pre><code>")
			shown, _, _ = strings.Cut(shown, "</code>")
			require.Regexp(t, `\bc\.[A-Z]`, shown, operation.ID)
			require.NotContains(t, shown, "return", operation.ID)
		}
	}
}
