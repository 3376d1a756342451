package mirrors

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/httpapi/live"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Mirrors manages subscriptions of mode mirror.
type Mirrors interface {
	live.Mirrors

	// Create creates a mirror. Codes InvalidRequest; Conflict; NotFound; Forbidden; SubscriptionExists;
	// MirrorCycle; Unprocessable.
	Create(ctx context.Context, m sluice.Mirror, by sluice.Caller) (sluice.Mirror, error)
	// Require returns an error unless a caller may create or resume a mirror.
	Require(who sluice.Caller, m *sluice.Mirror) error
	// List returns the mirrors of a namespace, ordered by id; "" stands for all namespaces.
	List(ctx context.Context, namespace string) ([]sluice.Mirror, error)
	// Status returns the state of a mirror.
	Status(ctx context.Context, m *sluice.Mirror) (sluice.MirrorStatus, error)
	// Edit changes a mirror. Codes SubscriptionMissing; InvalidRequest; Unprocessable;
	// RevisionMismatch.
	Edit(ctx context.Context, id string, edit sluice.MirrorEdit, revision uint64, by string) (sluice.Mirror, error)
	// Sync syncs a mirror to the end of its source, or until ctx ends.
	Sync(ctx context.Context, id string) error
	// SyncShared is Sync, but does nothing if another sync of the mirror waits to begin.
	SyncShared(ctx context.Context, id string) error
	Suspend(ctx context.Context, id, by string) (sluice.Mirror, error)
	// Resume validates a mirror again and has it sync. Codes those of Create.
	Resume(ctx context.Context, id string, by sluice.Caller, accept bool) (sluice.Mirror, error)
	PutCredential(ctx context.Context, id, token, by string) (sluice.Mirror, error)
	Delete(ctx context.Context, id, by string) error
	// Import applies a bundle to the mirror of its source. Codes BundleSignatureInvalid; UnknownKey;
	// NoMatchingSubscription; BundleImported; BundleGap; BundleFork; OriginReplaced; MirrorSuspended.
	Import(ctx context.Context, namespace string, b bundle.Bundle, acceptGap bool, by string) (sluice.BundleImport, error)
	// Examine returns the error with which Import would refuse a bundle, before its content has
	// arrived.
	Examine(ctx context.Context, namespace string, s *bundle.Signed, acceptGap bool) error
	// TrustedKeys returns the keys whose bundles a namespace imports, and those that were revoked.
	TrustedKeys(ctx context.Context, namespace string) (bundle.Trust, error)
	// Trust adds a key whose bundles a namespace imports. Codes NotFound; InvalidRequest; Conflict.
	Trust(ctx context.Context, namespace string, key bundle.JWK, source, by string) (bundle.TrustedKey, error)
	// Distrust revokes such a key. Code NotFound.
	Distrust(ctx context.Context, namespace, kid, by string) error
	// Items returns entries of a mirror after a cursor, in the order of their last change.
	Items(ctx context.Context, m *sluice.Mirror, after uint64, limit int) (model.MirrorPage, error)
	// Topics returns the paths of a mirror's entries that begin with a prefix, ordered by name.
	// Code Unprocessable if there are too many.
	Topics(ctx context.Context, m *sluice.Mirror, prefix string) ([]sluice.MirroredTopic, error)
}

// mirrorKey is the context key of the request's mirror.
const mirrorKey = "mirror"

// mirrorOf returns the request's mirror; nil if it is about another subscription.
func mirrorOf(c echo.Context) *sluice.Mirror {
	m, _ := c.Get(mirrorKey).(*sluice.Mirror)
	return m
}

// Or returns the route of a subscription with a handler of its own for mirrors, which requires an
// admin of the mirror's namespace.
func (s *Handler) Or(r httpkit.Route) httpkit.Route {
	of, other, handle := r.Demand, r.Handle, s.instead(r)
	r.Demand = func(c echo.Context) error {
		err := of(c)
		if sluice.CodeOf(err) == sluice.SubscriptionMissing && s.findMirror(c) {
			return nil
		}
		return err
	}
	r.Handle = func(c echo.Context) error {
		if mirrorOf(c) != nil {
			return handle(c)
		}
		return other(c)
	}
	return r
}

// instead returns the handler of a subscription's route for mirrors.
func (s *Handler) instead(r httpkit.Route) echo.HandlerFunc {
	switch r.Method + " " + r.Path {
	case http.MethodGet + " " + one:
		return s.getMirror
	case http.MethodPatch + " " + one:
		return s.patchMirror
	case http.MethodDelete + " " + one:
		return s.deleteMirror
	case http.MethodPost + " " + one + "/resume":
		return s.resumeMirror
	case http.MethodGet + " " + one + "/status":
		return s.mirrorStatus
	}
	return r.Handle
}

// findMirror reports whether a request is about a mirror that the caller administers. It stores
// that mirror in the context.
func (s *Handler) findMirror(c echo.Context) bool {
	if s.opts.Mirrors == nil {
		return false
	}
	m, err := s.opts.Mirrors.Get(c.Request().Context(), c.Param("id"))
	if err != nil || s.needs.Rights.Require(c, sluice.VerbAdmin, authz.Target{Namespace: m.Namespace}) != nil {
		return false // it looks missing
	}
	c.Set(mirrorKey, &m)
	return true
}

// mirrored requires a mirror that the caller administers.
func (s *Handler) mirrored(c echo.Context) error {
	if s.findMirror(c) {
		return nil
	}
	return sluice.Errorf(sluice.SubscriptionMissing, "no mirror with this id, or not visible to you")
}

// Wanted reports whether a request body asks for a mirror. Errors in the body are reported later.
func Wanted(body []byte) bool {
	var is struct{ Mode sluice.Mode }
	return json.Unmarshal(body, &is) == nil && is.Mode == sluice.Mirroring
}

// mirrorRequest is the body of a request for a mirror.
type mirrorRequest struct {
	ID           string            `json:"id"`
	Mode         sluice.Mode       `json:"mode"`
	Namespace    string            `json:"namespace"`
	Source       string            `json:"source"`
	Depth        string            `json:"depth"`
	PathPrefix   string            `json:"path_prefix"`
	PollInterval sluice.Duration   `json:"poll_interval"`
	Weight       *float64          `json:"weight"`
	Credential   string            `json:"credential"`
	Description  string            `json:"description"`
	Metadata     map[string]string `json:"metadata"`
}

// Create creates a mirror for an admin of its namespace (S3-109). id is that of the URL, "" for a
// POST. It answers 201. An ID in use is SubscriptionDiffers, also with the same configuration; a
// second mirror of the source is SubscriptionExists. The credential is in no response (S3-143).
// Codes: those of Mirrors.Create.
func (s *Handler) Create(c echo.Context, id string, body []byte) error {
	if s.opts.Mirrors == nil {
		return noMirrors()
	}
	var req mirrorRequest
	if err := strictjson.Decode(body, &req); err != nil {
		return err
	}
	if ns := c.Param("ns"); ns != "" {
		if req.Namespace != "" && req.Namespace != ns {
			return subscription.OtherNamespace(req.Namespace, ns)
		}
		req.Namespace = ns
	}
	if id != "" && req.ID != "" && req.ID != id {
		return sluice.Errorf(sluice.InvalidRequest, "the body's id %q is not the path's %q", req.ID, id)
	}
	depth, err := sluice.ParseDepth(req.Depth)
	if err != nil {
		return err
	}
	m := sluice.Mirror{
		ID: cmp.Or(id, req.ID), Namespace: req.Namespace, Source: req.Source, Depth: depth, PathPrefix: req.PathPrefix,
		PollInterval: req.PollInterval, Credential: req.Credential, Description: req.Description, Metadata: req.Metadata,
	}
	m.SetDefaults()
	if req.Weight != nil {
		m.Weight = *req.Weight // 0 is refused
	}
	if err := s.opts.Mirrors.Require(httpkit.Caller(c), &m); err != nil {
		return err
	}
	made, err := s.opts.Mirrors.Create(c.Request().Context(), m, httpkit.Caller(c))
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/v1/subscriptions/"+made.ID)
	return showMirror(c, http.StatusCreated, &made)
}

// showMirror sends a mirror with its revision as the ETag.
func showMirror(c echo.Context, code int, m *sluice.Mirror) error {
	httpkit.SetETag(c, m.Revision)
	return c.JSON(code, m)
}

// getMirror answers GET /v1/subscriptions/{id} for a mirror, without its credential.
func (s *Handler) getMirror(c echo.Context) error { return showMirror(c, http.StatusOK, mirrorOf(c)) }

// List returns the mirrors of the namespaces that the caller administers, each with its status
// (S3-99).
func (s *Handler) List(c echo.Context, p httpkit.Page) error {
	if s.opts.Mirrors == nil {
		return noMirrors()
	}
	all, err := s.opts.Mirrors.List(c.Request().Context(), cmp.Or(c.Param("ns"), c.QueryParam("namespace")))
	if err != nil {
		return err
	}
	visible := all[:0]
	for _, m := range all {
		state, source := c.QueryParam("state"), c.QueryParam("source")
		if (state == "" || state == string(m.State)) && (source == "" || source == m.Source) && s.needs.Rights.Require(c, sluice.VerbAdmin, authz.Target{Namespace: m.Namespace}) == nil {
			visible = append(visible, m)
		}
	}
	page, next, err := httpkit.Paginate(p, visible, func(m *sluice.Mirror) string { return m.ID })
	if err != nil {
		return err
	}
	list := mirrorList{Subscriptions: []mirrorSummary{}, NextCursor: next}
	for i := range page {
		st, err := s.opts.Mirrors.Status(c.Request().Context(), &page[i])
		if err != nil {
			return err
		}
		list.Subscriptions = append(list.Subscriptions, mirrorSummary{page[i], st})
	}
	return c.JSON(http.StatusOK, list)
}

// mirrorList is one page of mirrors.
type mirrorList struct {
	Subscriptions []mirrorSummary `json:"subscriptions"`
	NextCursor    string          `json:"next_cursor"`
}

type mirrorSummary struct {
	sluice.Mirror

	Status sluice.MirrorStatus `json:"status"`
}

// mirrorStatus answers GET …/status for a mirror (S3-101).
func (s *Handler) mirrorStatus(c echo.Context) error {
	st, err := s.opts.Mirrors.Status(c.Request().Context(), mirrorOf(c))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, st)
}

// patchMirror answers PATCH for a mirror. If-Match fences it: RevisionMismatch. Source, depth and
// prefix cannot change.
func (s *Handler) patchMirror(c echo.Context) error {
	revision, err := httpkit.IfMatch(c)
	if err != nil {
		return err
	}
	var edit sluice.MirrorEdit
	if err := httpkit.Bind(c, &edit); err != nil {
		return err
	}
	m, err := s.opts.Mirrors.Edit(c.Request().Context(), mirrorOf(c).ID, edit, revision, httpkit.By(c))
	if err != nil {
		return err
	}
	return showMirror(c, http.StatusOK, &m)
}

// deleteMirror answers DELETE for a mirror with 204. Its copy is removed with it (S3-98).
func (s *Handler) deleteMirror(c echo.Context) error {
	if err := s.opts.Mirrors.Delete(c.Request().Context(), mirrorOf(c).ID, httpkit.By(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// maxSyncWait is how long a request may wait for a sync.
const maxSyncWait = time.Minute

// syncMirror syncs a mirror now (S3-100). It responds with 202 if the sync has begun, or with 200
// and the status if the sync ends within ?wait=.
func (s *Handler) syncMirror(c echo.Context) error {
	m := mirrorOf(c)
	if m.State != sluice.Active {
		return sluice.Errorf(sluice.MirrorSuspended, "the mirror is suspended (%s); resume it first", m.Reason)
	}
	text := c.QueryParam("wait")
	if text == "" {
		ctx, cancel := s.needs.UntilStop(context.WithoutCancel(c.Request().Context()))
		go func() { // its outcome is in the status
			defer cancel()
			_ = s.opts.Mirrors.SyncShared(ctx, m.ID)
		}()
		return c.NoContent(http.StatusAccepted)
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > maxSyncWait {
		return sluice.Errorf(sluice.InvalidRequest, "wait %q: use a duration up to %s", text, maxSyncWait).With("field", "wait")
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), wait)
	defer cancel()
	if err := s.opts.Mirrors.Sync(ctx, m.ID); err != nil {
		if ctx.Err() != nil && c.Request().Context().Err() == nil {
			return c.NoContent(http.StatusAccepted)
		}
		return err
	}
	if err := s.mirrored(c); err != nil { // the sync may have suspended it
		return err
	}
	return s.mirrorStatus(c)
}

// suspendMirror answers POST …/suspend. It is idempotent; the copy stays readable (S3-126).
func (s *Handler) suspendMirror(c echo.Context) error {
	m, err := s.opts.Mirrors.Suspend(c.Request().Context(), mirrorOf(c).ID, httpkit.By(c))
	if err != nil {
		return err
	}
	return showMirror(c, http.StatusOK, &m)
}

// resumeMirror validates a mirror again (S3-128). The caller becomes its approver.
func (s *Handler) resumeMirror(c echo.Context) error {
	var req struct {
		AcceptOrigin bool `json:"accept_origin"`
	}
	if c.Request().ContentLength != 0 {
		if err := httpkit.Bind(c, &req); err != nil {
			return err
		}
	}
	m := mirrorOf(c)
	if err := s.opts.Mirrors.Require(httpkit.Caller(c), m); err != nil {
		return err
	}
	is, err := s.opts.Mirrors.Resume(c.Request().Context(), m.ID, httpkit.Caller(c), req.AcceptOrigin)
	if err != nil {
		return err
	}
	return showMirror(c, http.StatusOK, &is)
}

// putCredential answers PUT …/credential (S3-144). Codes Conflict for a source on this server;
// Forbidden if the token permits more than reading (S3-142).
func (s *Handler) putCredential(c echo.Context) error {
	var req struct {
		Credential string `json:"credential"`
	}
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	if req.Credential == "" {
		return sluice.Errorf(sluice.InvalidRequest, "credential is missing").With("field", "credential")
	}
	m, err := s.opts.Mirrors.PutCredential(c.Request().Context(), mirrorOf(c).ID, req.Credential, httpkit.By(c))
	if err != nil {
		return err
	}
	return showMirror(c, http.StatusOK, &m)
}

func noMirrors() error {
	return sluice.Errorf(sluice.Unavailable, "this server has no mirrors")
}
