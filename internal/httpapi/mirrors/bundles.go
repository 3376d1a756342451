package mirrors

import (
	"cmp"
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of bundles over HTTP. An export that reaches its limit ends there, and the next export
// continues.
const (
	bundlesAtOnce   = 2 // in memory: each takes several times its size (bundle.MaxDocument)
	transfersAtOnce = 4 // directories in transfer: each has a manifest and a file in memory
	transfersOfOne  = 2 // of these, for one namespace
	bundleWait      = 10 * time.Second
	exportEntries   = 20_000
	exportTime      = 20 * time.Second
	exportPage      = 1000
)

// ImportRoute is the route that imports bundles.
const ImportRoute = "/v1/namespaces/:ns/import"

// headerDigest is the header with the digest of an exported bundle, which the next export takes as
// its parameter previous.
const headerDigest = "Sluice-Bundle-Digest"

func (s *Handler) bundleRoutes() []httpkit.Route {
	const trusted = "/v1/namespaces/:ns/trusted-keys"
	return []httpkit.Route{
		httpkit.On(http.MethodGet, "/v1/namespaces/:ns/export", s.needs.Rights.NamespaceAdmin, s.exportBundle, "since", "scope", "previous", "form", "max_bytes"),
		httpkit.On(http.MethodPost, ImportRoute, s.needs.Rights.NamespaceAdmin, s.importBundle, "accept_gap"),
		httpkit.On(http.MethodGet, "/v1/namespaces/:ns/bundle-keys", s.needs.Rights.SeesNamespace, s.bundleKeys),
		httpkit.On(http.MethodGet, trusted, s.needs.Rights.NamespaceAdmin, s.listTrustedKeys),
		httpkit.On(http.MethodPut, trusted+"/:kid", s.needs.Rights.NamespaceAdmin, s.putTrustedKey),
		httpkit.On(http.MethodDelete, trusted+"/:kid", s.needs.Rights.NamespaceAdmin, s.deleteTrustedKey),
	}
}

// exportBundle returns the changes of a namespace after a sequence, those that the caller may read,
// as a signed bundle (S3-61…68). It stores nothing: a source does not know its mirrors (S3-137). It
// answers GET /v1/namespaces/{ns}/export for admins. form=directory sends a tar stream. A bundle
// ends at a limit, and its through is the since of the next. Codes NotFound; Unavailable if too
// many bundles are in transfer.
func (s *Handler) exportBundle(c echo.Context) error {
	if s.opts.BundleKeys == nil {
		return noMirrors()
	}
	q, err := exportQuery(c)
	if err != nil {
		return err
	}
	keys, err := s.opts.BundleKeys(c.Request().Context())
	if err != nil {
		return err
	}
	if q.directory {
		return s.exportDirectory(c, q, keys[0])
	}
	leave, err := enter(c.Request().Context(), s.bundles, c.Param("ns"))
	if err != nil {
		return err
	}
	defer leave()
	w, err := bundle.NewDocumentWriter(q.depth.Scope(), q.since)
	if err != nil {
		return err
	}
	e := s.newExport(c, q, w.Append)
	e.most, e.until = exportEntries, e.header.ExportedAt.Add(exportTime)
	if err := e.collect(); err != nil {
		return err
	}
	body, header, err := w.Seal(e.header, keys[0])
	if err != nil {
		return err
	}
	digest, err := header.Digest()
	if err != nil {
		return err
	}
	c.Response().Header().Set(headerDigest, digest)
	return c.JSONBlob(http.StatusOK, body)
}

// exportParams are the parameters of an export.
type exportParams struct {
	since     uint64
	depth     sluice.Depth
	directory bool
	most      int64 // maximum bytes of a directory
}

// Limits of the parameter max_bytes.
const (
	leastBytes   = 8 << 20
	defaultBytes = 1 << 30
	mostBytes    = 1 << 40
)

// exportQuery parses the parameters. since is exclusive; the default depth is catalog.
func exportQuery(c echo.Context) (q exportParams, err error) {
	if err := httpkit.OneOf(c, "form", "document", "directory"); err != nil {
		return q, err
	}
	text := c.QueryParam("since")
	if q.since, err = strconv.ParseUint(cmp.Or(text, "0"), 10, 64); err != nil {
		return q, sluice.Errorf(sluice.InvalidRequest, "since %q: use a sequence, 0 for the beginning", text).With("field", "since")
	}
	q.directory, q.most = c.QueryParam("form") == "directory", defaultBytes
	if text := c.QueryParam("max_bytes"); text != "" {
		if q.most, err = strconv.ParseInt(text, 10, 64); err != nil || q.most < leastBytes || q.most > mostBytes || !q.directory {
			return q, sluice.Errorf(sluice.InvalidRequest, "max_bytes %q: use %d to %d, with form=directory", text, leastBytes, mostBytes).With("field", "max_bytes")
		}
	}
	q.depth, err = sluice.ParseDepth(c.QueryParam("scope"))
	return q, httpkit.InField(err, "scope")
}

// export collects a bundle.
type export struct {
	s      *Handler
	c      echo.Context
	depth  sluice.Depth
	header bundle.Header
	append func(bundle.Entry) error
	enough func() bool
	most   int       // entries; 0: unlimited
	until  time.Time // zero: unlimited
	count  int
}

func (s *Handler) newExport(c echo.Context, q exportParams, add func(bundle.Entry) error) *export {
	return &export{s: s, c: c, depth: q.depth, append: add, enough: func() bool { return false }, header: bundle.Header{
		SourceID: s.needs.PublicURL + "/v1/namespaces/" + c.Param("ns"), SourceName: c.Param("ns"),
		Since: q.since, Through: q.since, Previous: c.QueryParam("previous"), ExportedAt: time.Now(),
	}}
}

// collect reads the changes, page by page, until there are no more or the bundle is large enough.
// Codes: those of changesOf; InvalidRequest if the log ends before it begins.
func (e *export) collect() error {
	for more := true; more && !e.ends(); {
		page, err := e.s.changesOf(e.c, model.ChangeQuery{Since: e.header.Through, Limit: exportPage}, e.depth)
		if err != nil {
			return err
		}
		if more, err = e.take(&page); err != nil {
			return err
		}
	}
	return nil
}

// ends reports whether the bundle is large enough.
func (e *export) ends() bool {
	return e.most > 0 && e.count >= e.most || !e.until.IsZero() && !time.Now().Before(e.until) || e.enough()
}

// take adds a page, and reports whether the bundle continues after it.
func (e *export) take(page *sluice.ObservePage) (more bool, err error) {
	h := &e.header
	switch first := h.Incarnation == ""; {
	case first && page.LastSeq < h.Since:
		return false, sluice.Errorf(sluice.InvalidRequest, "since %d: the log ends at %d", h.Since, page.LastSeq).With("field", "since")
	case first:
		h.Incarnation, h.First = page.Incarnation, page.FirstSeq
	case page.Incarnation != h.Incarnation:
		return false, sluice.Errorf(sluice.Unavailable, "the log was made anew during the export; try again")
	case page.FirstSeq > h.Through+1:
		return false, nil // the next bundle states that its beginning is lost
	}
	from, through, more := h.Through, page.ThroughSeq, page.HasMore && page.ThroughSeq > h.Through
	for i := range page.Items {
		entry := bundle.Entry{Change: page.Items[i]}
		if e.depth == sluice.DepthFull && e.s.opts.Summary != nil && entry.Op != sluice.OpDelete {
			entry.Summary = e.s.opts.Summary(&entry.Event)
		}
		err := e.append(entry)
		if sluice.CodeOf(err) == sluice.TooLarge && e.count > 0 {
			through, more = entry.Event.Seq-1, false
			break
		}
		if err != nil {
			return false, err
		}
		e.count++
	}
	h.Through, h.Label, h.Passed = through, page.Label, page.Passed
	for _, lost := range page.Lost {
		if lost = (sluice.Gap{From: max(lost.From, from+1), To: min(lost.To, through)}); lost.From <= lost.To {
			h.Lost = joined(h.Lost, lost)
		}
	}
	return more, nil
}

// joined appends a lost range, which extends the last one if no sequence is between them: each page
// has its part of a long one.
func joined(ranges []sluice.Gap, lost sluice.Gap) []sluice.Gap {
	if last := len(ranges) - 1; last >= 0 && lost.From <= ranges[last].To+1 {
		ranges[last].To = max(ranges[last].To, lost.To)
		return ranges
	}
	return append(ranges, lost)
}

// importBundle applies a bundle to the mirror of its source (S3-69…73). It answers POST
// /v1/namespaces/{ns}/import for admins: 200 when it is applied, 202 with the missing files while a
// directory is incomplete. It can be repeated: an applied bundle is BundleImported. All of it is
// verified before any of it is applied. Codes: those of Mirrors.Import.
func (s *Handler) importBundle(c echo.Context) error {
	if s.opts.Mirrors == nil {
		return noMirrors()
	}
	if err := httpkit.OneOf(c, "accept_gap", "true", "false"); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if isTar(c) {
		return s.importDirectory(c)
	}
	leave, err := enter(ctx, s.bundles, c.Param("ns"))
	if err != nil {
		return err
	}
	defer leave()
	doc, err := bundle.ReadDocument(pacedBody{from: c.Request().Body})
	if err != nil {
		return err
	}
	done, err := s.opts.Mirrors.Import(ctx, c.Param("ns"), doc, c.QueryParam("accept_gap") == "true", httpkit.By(c))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, done)
}

// jwkSet is a JWK set (RFC 7517).
type jwkSet struct {
	Keys []bundle.JWK `json:"keys"`
}

// bundleKeys returns the public halves of the keys that sign the bundles of a namespace.
func (s *Handler) bundleKeys(c echo.Context) error {
	if s.opts.BundleKeys == nil {
		return noMirrors()
	}
	keys, err := s.opts.BundleKeys(c.Request().Context())
	if err != nil {
		return err
	}
	var set jwkSet
	for _, key := range keys {
		set.Keys = append(set.Keys, bundle.NewJWK(key.Public().(ed25519.PublicKey))) //nolint:forcetypeassert // of an Ed25519 key
	}
	return c.JSON(http.StatusOK, set)
}

// trustedKeyList is the complete list of keys, which is short.
type trustedKeyList struct {
	Keys       bundle.Trust `json:"keys"`
	NextCursor string       `json:"next_cursor"`
}

// listTrustedKeys answers GET …/trusted-keys for admins, with the revoked keys, on one page.
func (s *Handler) listTrustedKeys(c echo.Context) error {
	if s.opts.Mirrors == nil {
		return noMirrors()
	}
	keys, err := s.opts.Mirrors.TrustedKeys(c.Request().Context(), c.Param("ns"))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, trustedKeyList{Keys: append(bundle.Trust{}, keys...)})
}

// trustedKeyRequest is the body of a PUT.
type trustedKeyRequest struct {
	JWK    json.RawMessage `json:"jwk"`
	Source string          `json:"source"`
}

// putTrustedKey answers PUT …/trusted-keys/{kid} for admins. The kid must be the thumbprint of the
// key, so that a mistake in the file is noticed. Codes Unprocessable; NotFound for the namespace;
// Conflict for a key that was revoked, and beyond the limit of keys.
func (s *Handler) putTrustedKey(c echo.Context) error {
	if s.opts.Mirrors == nil {
		return noMirrors()
	}
	body, err := httpkit.JSONBody(c)
	if err != nil {
		return err
	}
	var req trustedKeyRequest
	if err := strictjson.Decode(body, &req); err != nil {
		return err
	}
	key, err := bundle.ParseJWK(req.JWK)
	if err != nil {
		return err
	}
	if kid := c.Param("kid"); kid != key.KeyID {
		return sluice.Errorf(sluice.Unprocessable, "kid %.100q is not the thumbprint of the key (RFC 7638), %s", kid, key.KeyID).With("field", "kid")
	}
	is, err := s.opts.Mirrors.Trust(c.Request().Context(), c.Param("ns"), key, req.Source, httpkit.By(c))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, is)
}

// deleteTrustedKey answers DELETE …/trusted-keys/{kid} for admins: a permanent revocation for all
// sources. Code NotFound.
func (s *Handler) deleteTrustedKey(c echo.Context) error {
	if s.opts.Mirrors == nil {
		return noMirrors()
	}
	if err := s.opts.Mirrors.Distrust(c.Request().Context(), c.Param("ns"), c.Param("kid"), httpkit.By(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
