package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// BundleKey is a public key that signs bundles, as a JSON Web Key (RFC 8037).
type BundleKey struct {
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	KeyID string `json:"kid,omitempty"` // thumbprint of the key (RFC 7638)
	Alg   string `json:"alg,omitempty"`
	Use   string `json:"use,omitempty"`
}

// TrustedKey is a key whose bundles of a source a namespace imports.
type TrustedKey struct {
	KeyID     string    `json:"kid"`
	JWK       BundleKey `json:"jwk"`
	Source    string    `json:"source"` // URL of the source's namespace
	AddedAt   time.Time `json:"added_at"`
	RevokedAt time.Time `json:"revoked_at,omitzero"` // zero: not revoked
}

// BundleKeys returns the keys that sign the bundles of a namespace, the one that signs now first.
func (c *Client) BundleKeys(ctx context.Context, namespace string) ([]BundleKey, error) {
	page, err := list[BundleKey](ctx, c, join(namespaces, namespace, "bundle-keys"), "keys", nil)
	return page.Items, err
}

// TrustedKeys returns the keys whose bundles a namespace imports, and those that were revoked.
func (c *Client) TrustedKeys(ctx context.Context, namespace string) ([]TrustedKey, error) {
	page, err := list[TrustedKey](ctx, c, join(namespaces, namespace, trustedKeys), "keys", nil)
	return page.Items, err
}

const trustedKeys = "trusted-keys"

// TrustKey has a namespace import the bundles of a source that a key signed. Code Conflict if the key was
// revoked.
func (c *Client) TrustKey(ctx context.Context, namespace string, key BundleKey, source string) (TrustedKey, error) {
	return send[TrustedKey](ctx, c, call{method: http.MethodPut, path: join(namespaces, namespace, trustedKeys, key.KeyID)}, struct {
		JWK    BundleKey `json:"jwk"`
		Source string    `json:"source"`
	}{key, source})
}

// DistrustKey revokes a key for all sources: nothing that it signed is imported any more. Code NotFound.
func (c *Client) DistrustKey(ctx context.Context, namespace, kid string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(namespaces, namespace, trustedKeys, kid)}, nil)
	return err
}

// ExportQuery selects the changes in a bundle.
type ExportQuery struct {
	Since    uint64       // exclusive; the through_sequence of the bundle before
	Depth    sluice.Depth // default catalog
	Previous string       // digest of the bundle before; "" for the first
}

func (q ExportQuery) params(more ...string) url.Values {
	return params(append(more, "since", strconv.FormatUint(q.Since, 10), "scope", string(q.Depth), "previous", q.Previous)...)
}

// ExportBundle returns the changes of a namespace as a signed bundle, one JSON document of up to 64 MiB, and
// its digest. If there is more, the next one begins behind its through_sequence.
func (c *Client) ExportBundle(ctx context.Context, namespace string, q ExportQuery) (document []byte, digest string, err error) {
	got, err := c.do(ctx, call{method: http.MethodGet, path: join(namespaces, namespace, "export"), query: q.params()}, nil)
	return got.body, got.header.Get("Sluice-Bundle-Digest"), err
}

// ImportBundle applies a bundle, as ExportBundle returns it, to the mirror of its source. With accept, it is
// applied even if changes before it are missing. Codes BundleSignatureInvalid, UnknownKey,
// NoMatchingSubscription, BundleImported, BundleGap, BundleFork, OriginReplaced and MirrorSuspended.
func (c *Client) ImportBundle(ctx context.Context, namespace string, document []byte, accept bool) (sluice.BundleImport, error) {
	var result sluice.BundleImport
	_, err := c.do(ctx, call{method: http.MethodPost, path: join(namespaces, namespace, "import"), query: params("accept_gap", orNothing[accept]), media: "application/json", body: document}, &result)
	return result, err
}

// ExportDirectory returns the changes of a namespace as a signed bundle of plain files: a tar stream, which ends
// with manifest.json, of about so many bytes at most; 0: the server's default. Close it. A stream without
// manifest.json is not complete.
func (c *Client) ExportDirectory(ctx context.Context, namespace string, q ExportQuery, most int64) (io.ReadCloser, error) {
	limit := ""
	if most > 0 {
		limit = strconv.FormatInt(most, 10)
	}
	req := call{method: http.MethodGet, path: join(namespaces, namespace, "export"), query: q.params("form", "directory", "max_bytes", limit)}
	resp, err := c.open(ctx, req, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return nil, noResponse(ctx, c.base, err)
		}
		return nil, readError(resp, body)
	}
	return resp.Body, nil
}

// DirectoryImport is the result of ImportDirectory.
type DirectoryImport struct {
	sluice.BundleImport

	// Files that the server does not have yet. Nothing is applied until it has all.
	Missing      []string `json:"missing"`
	MissingBytes int64    `json:"missing_bytes"`
}

// ImportDirectory sends files of a bundle of plain files, as a tar stream that begins with manifest.json. When the
// server has all of them, from this call or an earlier one, it applies the bundle as ImportBundle does; else
// the result names the missing ones. The call is not retried.
func (c *Client) ImportDirectory(ctx context.Context, namespace string, files io.Reader, accept bool) (DirectoryImport, error) {
	var result DirectoryImport
	req := call{
		method: http.MethodPost, path: join(namespaces, namespace, "import"), query: params("accept_gap", orNothing[accept]), media: "application/x-tar",
	}
	resp, err := c.open(ctx, req, files)
	if err != nil {
		return result, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return result, noResponse(ctx, c.base, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return result, readError(resp, body)
	}
	if err := json.Unmarshal(body, &result); err != nil {
		return result, fmt.Errorf("%s %s: the response does not have the expected JSON structure: %w", req.method, req.path, err)
	}
	return result, nil
}

// orNothing is a parameter that is false by default.
var orNothing = map[bool]string{true: "true"} //nolint:gochecknoglobals // a constant
