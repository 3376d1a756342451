package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Page is one page of a list. Next is the cursor of the next page, empty on the last.
type Page[T any] struct {
	Items []T
	Next  string
	// Unreadable are ranges of a page of events in which some may be lost, because the files of the
	// log are damaged.
	Unreadable []sluice.Gap
}

// list fetches one page of a list whose elements are in the field name.
func list[T any](ctx context.Context, c *Client, path, name string, query url.Values) (Page[T], error) {
	var reply map[string]json.RawMessage
	var page Page[T]
	if _, err := c.do(ctx, call{method: http.MethodGet, path: path, query: query}, &reply); err != nil {
		return page, err
	}
	for key, target := range map[string]any{name: &page.Items, "next_cursor": &page.Next, "unreadable": &page.Unreadable} {
		if value, ok := reply[key]; ok {
			if err := json.Unmarshal(value, target); err != nil {
				return page, fmt.Errorf("GET %s: unexpected %s: %w", path, key, err)
			}
		}
	}
	return page, nil
}

// params returns the non-empty parameters.
func params(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return query
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// encode creates the call's body. HTML characters are not escaped, so that an event's data is
// unchanged.
func encode(req call, body any) (call, error) {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return req, sluice.Errorf(sluice.InvalidRequest, "the request is not JSON: %v", err)
	}
	if req.media == "" {
		req.media = "application/json"
	}
	req.body = bytes.TrimSuffix(data.Bytes(), []byte("\n"))
	return req, nil
}

// send makes a call with a JSON body and returns the decoded response.
func send[T any](ctx context.Context, c *Client, req call, body any) (T, error) {
	var reply T
	if body != nil {
		var err error
		if req, err = encode(req, body); err != nil {
			return reply, err
		}
	}
	_, err := c.do(ctx, req, &reply)
	return reply, err
}

// Capabilities returns the server's capabilities.
func (c *Client) Capabilities(ctx context.Context) (map[string]any, error) {
	return send[map[string]any](ctx, c, call{method: http.MethodGet, path: "/v1/capabilities"}, nil)
}

// Storage returns the usage of the server's store.
func (c *Client) Storage(ctx context.Context) (sluice.Storage, error) {
	return send[sluice.Storage](ctx, c, call{method: http.MethodGet, path: "/v1/storage"}, nil)
}

// VerifyStorage starts a read of everything that is stored. Storage returns the progress and any
// unreadable data.
func (c *Client) VerifyStorage(ctx context.Context) (sluice.Verification, error) {
	return send[sluice.Verification](ctx, c, call{method: http.MethodPost, path: "/v1/storage/verify"}, nil)
}

// ForgetDamage acknowledges the damage that was found in the store.
func (c *Client) ForgetDamage(ctx context.Context) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: "/v1/storage/damage"}, nil)
	return err
}

// Ready returns the server's time (zero if it does not send it) if the server is ready, and code
// Unavailable otherwise. It does not retry.
func (c *Client) Ready(ctx context.Context) (time.Time, error) {
	var reply struct {
		OK bool `json:"ok"`
	}
	got, err := c.do(ctx, call{method: http.MethodGet, path: "/readyz", once: true}, &reply)
	if err != nil {
		return time.Time{}, err
	}
	if !reply.OK {
		return time.Time{}, sluice.Errorf(sluice.Unavailable, "the service at %s is not a Sluice server", c.base)
	}
	at, err := http.ParseTime(got.header.Get("Date"))
	if err != nil {
		return time.Time{}, nil //nolint:nilerr // a server without a Date header is ready all the same
	}
	return at, nil
}

const namespaces = "/v1/namespaces"

// NamespaceSpec describes a namespace; zero values mean the server's defaults.
type NamespaceSpec struct {
	Description string           `json:"description,omitempty"`
	Retention   sluice.Retention `json:"retention,omitzero"`
	DedupWindow sluice.Duration  `json:"dedup_window,omitzero"`
	Quota       sluice.Quota     `json:"quota,omitzero"`
	Catalogue   sluice.Catalogue `json:"catalogue,omitempty"`
	Label       *sluice.Label    `json:"label,omitempty"` // nil: unchanged
	Revision    uint64           `json:"-"`               // required current revision; 0: any
}

// Namespaces returns a page of the namespaces, starting at the cursor ("" for the first page).
func (c *Client) Namespaces(ctx context.Context, cursor string) (Page[sluice.Namespace], error) {
	return list[sluice.Namespace](ctx, c, namespaces, "namespaces", params("cursor", cursor))
}

// Namespace returns one namespace with its usage. Code NotFound if there is none.
func (c *Client) Namespace(ctx context.Context, name string) (sluice.Namespace, error) {
	return send[sluice.Namespace](ctx, c, call{method: http.MethodGet, path: join(namespaces, name)}, nil)
}

// PutNamespace creates or updates a namespace and returns it. Code RevisionMismatch if the spec
// names a revision that is not the current one.
func (c *Client) PutNamespace(ctx context.Context, name string, spec NamespaceSpec) (sluice.Namespace, error) {
	req := call{method: http.MethodPut, path: join(namespaces, name), header: ifMatch(spec.Revision)}
	return send[sluice.Namespace](ctx, c, req, spec)
}

// ifMatch returns the header that makes a change only of a revision; none for 0.
func ifMatch(revision uint64) map[string]string {
	if revision == 0 {
		return nil
	}
	return map[string]string{"If-Match": `"` + strconv.FormatUint(revision, 10) + `"`}
}

// DeleteNamespace deletes a namespace with everything in it. Code NotFound if there is none.
func (c *Client) DeleteNamespace(ctx context.Context, name string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(namespaces, name)}, nil)
	return err
}

// join appends escaped segments to a path.
func join(path string, segments ...string) string {
	var b strings.Builder
	b.WriteString(path)
	for _, s := range segments {
		b.WriteString("/" + url.PathEscape(s))
	}
	return b.String()
}
