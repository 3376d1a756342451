package mirrors

import (
	"crypto/ed25519"
	"errors"
	"log/slog"
	"mime"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/bundle/staging"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const mediaTar = "application/x-tar"

// isTar reports whether the body of a request is a bundle as a directory, in a tar stream.
func isTar(c echo.Context) bool {
	kind, _, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
	return err == nil && kind == mediaTar
}

// MaxBody returns the maximum size of the body of a request that imports a bundle. A tar stream may
// have the largest directory, and the headers of its files. If no directories arrive at this server,
// its limit is that of any request.
func (s *Handler) MaxBody(c echo.Context, ofAny int64) int64 {
	switch {
	case !isTar(c):
		return bundle.MaxDocument
	case s.opts.Staging == nil:
		return ofAny
	}
	return s.opts.Staging.Limit() + tarOverhead
}

// tarOverhead is the room for headers and padding of the files, in bytes.
const tarOverhead = 256 << 20

// exportDirectory sends the changes of a namespace as a directory of plain files in a tar stream,
// its manifest last (S3-61, S3-74). It stores nothing, and keeps one file at a time in memory.
func (s *Handler) exportDirectory(c echo.Context, q exportParams, key ed25519.PrivateKey) error {
	leave, err := enter(c.Request().Context(), s.transfers, c.Param("ns"))
	if err != nil {
		return err
	}
	defer leave()
	c.Response().Header().Set(echo.HeaderContentType, mediaTar)
	pace := s.newPace(c)
	defer pace.respond()
	to, sent := bundle.NewTarWriter(pacedWriter{c.Response(), pace}), int64(0)
	w, err := bundle.NewDirectoryWriter(q.depth.Scope(), q.since, func(name string, content []byte) error {
		sent += int64(len(content))
		return to.Put(name, content)
	})
	if err != nil {
		return err
	}
	e := s.newExport(c, q, w.Append)
	e.enough = func() bool { return sent >= q.most }
	if err = e.collect(); err == nil {
		_, err = w.Seal(e.header, key)
	}
	if err == nil {
		return to.Close()
	}
	if !c.Response().Committed {
		c.Response().Header().Del(echo.HeaderContentType)
		return err
	}
	return errors.Join(err, to.Fail(httpkit.Public(err).Message), to.Close()) // the response has begun
}

// Arrived is the response to an import while files of the directory are missing.
type Arrived struct {
	Missing []string `json:"missing"`
	Bytes   int64    `json:"missing_bytes"`
}

// importDirectory receives files of a directory, the manifest first, and applies the bundle once
// all files have arrived (S3-69…74). It stores nothing if the manifest would be refused.
func (s *Handler) importDirectory(c echo.Context) error {
	if s.opts.Staging == nil {
		return noMirrors()
	}
	ctx, ns, accept := c.Request().Context(), c.Param("ns"), c.QueryParam("accept_gap") == "true"
	leave, err := enter(ctx, s.transfers, ns)
	if err != nil {
		return err
	}
	defer leave()
	if s.needs.Room != nil {
		if err := s.needs.Room.Grow(); err != nil {
			return err
		}
	}
	pace := s.newPace(c)
	defer pace.respond()
	in, err := bundle.ReadTar(pacedBody{c.Request().Body, pace})
	if err != nil {
		return err
	}
	if err := s.opts.Mirrors.Examine(ctx, ns, in.Statement(), accept); err != nil {
		return err
	}
	arrival, err := s.opts.Staging.Open(ctx, ns, in.Manifest)
	if err != nil {
		return err
	}
	defer s.endArrival(c, arrival)
	if err := arrival.Take(ctx, in); err != nil {
		return err
	}
	if missing, n := arrival.Missing(); len(missing) > 0 {
		return c.JSON(http.StatusAccepted, Arrived{missing, n})
	}
	if err := httpkit.CheckAgain(c); err != nil {
		return err
	}
	return s.applyDirectory(c, arrival)
}

// applyDirectory applies a directory that has arrived. The staged files are removed when a
// repetition cannot succeed or is not needed; otherwise they stay for it.
func (s *Handler) applyDirectory(c echo.Context, arrival *staging.Arrival) error {
	ctx := c.Request().Context()
	leave, err := enter(ctx, s.bundles, c.Param("ns"))
	if err != nil {
		return err
	}
	defer leave()
	dir, err := arrival.Directory()
	if err != nil {
		return err
	}
	done, err := s.opts.Mirrors.Import(ctx, c.Param("ns"), dir, c.QueryParam("accept_gap") == "true", httpkit.By(c))
	err = errors.Join(err, dir.Close())
	switch sluice.CodeOf(err) { //nolint:exhaustive // the other errors are temporary, or can be remedied
	case "", sluice.Unprocessable, sluice.BundleImported, sluice.BundleFork: // importing it again is useless
		err = errors.Join(err, arrival.Remove())
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, done)
}

// endArrival closes an arrival. A failure only delays the removal of its files, and is logged.
func (s *Handler) endArrival(c echo.Context, arrival *staging.Arrival) {
	if err := arrival.Close(); err != nil {
		s.needs.Logger.LogAttrs(c.Request().Context(), slog.LevelWarn, "staged bundle not closed", slog.Any("error", err))
	}
}
