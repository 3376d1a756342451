package dstreams

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/pkg/sluice"
)

var wholeNumber = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})$`)

// forkWish returns the source that a new stream forks, nil if it forks none. Forking a stream
// requires permission to read it. The source is a path, or the URL path of a stream on this server.
// A hidden source is NotFound, as a missing one is. Code InvalidRequest for headers that do not
// belong together.
func (s *Handler) forkWish(c echo.Context) (*durable.ForkWish, error) {
	h := c.Request().Header
	from, offset, sub := h.Get(headerForkedFrom), h.Get(headerForkOffset), h.Values(headerForkSub)
	if from == "" {
		if offset != "" || len(sub) > 0 {
			return nil, sluice.Errorf(sluice.InvalidRequest, "Stream-Fork-Offset and Stream-Fork-Sub-Offset require Stream-Forked-From")
		}
		return nil, nil //nolint:nilnil // it is no fork
	}
	if inner, ok := strings.CutPrefix(from, streamsBase+c.Param("ns")+"/"); ok {
		from = "/" + inner
	}
	if inner, ok := strings.CutPrefix(from, rootBase); ok && cameByRoot(c) {
		from = "/" + inner
	}
	path, err := sluice.ParsePath(from)
	if err != nil {
		return nil, err
	}
	wish := &durable.ForkWish{From: path}
	if offset != "" {
		seq, err := durable.ParseOffset(offset)
		if err != nil {
			return nil, err
		}
		wish.Offset = &seq
	}
	if wish.Sub, err = subOffset(sub); err != nil {
		return nil, err
	}
	if wish.Sub > 0 && wish.Offset == nil {
		return nil, sluice.Errorf(sluice.InvalidRequest, "Stream-Fork-Sub-Offset requires Stream-Fork-Offset")
	}
	if err := s.requireStream(c, sluice.VerbRead, path); err != nil {
		return nil, err
	}
	return wish, s.mayKnow(c, durable.Key{Namespace: c.Param("ns"), Path: path}, durable.NoSource(path))
}

// subOffset returns the position within the message at the fork's offset; 0 without the header.
func subOffset(given []string) (int64, error) {
	if len(given) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(given[0], 10, 64)
	if err != nil || !wholeNumber.MatchString(given[0]) {
		return 0, sluice.Errorf(sluice.InvalidRequest, "Stream-Fork-Sub-Offset: write a whole number")
	}
	return n, nil
}
