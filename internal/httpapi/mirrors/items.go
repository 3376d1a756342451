package mirrors

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// The sources of items (S3-116).
const (
	itemsLocal    = "local"
	itemsMirrored = "mirrored"
	itemsAll      = "all"
)

// itemsQuery selects items after a place. The place is a sequence in the namespace's own log if
// mirror is empty, and otherwise a position in that mirror's order.
type itemsQuery struct {
	ns, source, prefix string
	mirror             string // of the place
	after              uint64
	limit              int
}

// itemList is one page of items: the namespace's own in the order of its log, then those of each mirror
// in the order of their last change.
type itemList struct {
	Items      []sluice.MirroredItem
	NextCursor string
}

// listItems returns a page of the entries of a namespace: its own, unless the query names another
// source (S3-35). It answers GET /v1/namespaces/{ns}/items (S3-116). Own entries need the verb read
// on their path, mirrored ones on the whole namespace. A page may be shorter than the limit and not
// the last. Codes NotFound; SubscriptionMissing.
func (s *Handler) listItems(c echo.Context) error {
	q, err := itemsOf(c)
	if err != nil {
		return err
	}
	list := itemList{Items: []sluice.MirroredItem{}}
	if q.source != itemsMirrored && q.mirror == "" {
		done, err := s.localItems(c, &q, &list)
		if err != nil || done {
			return cmp.Or(err, list.write(c))
		}
	}
	if q.source != itemsLocal {
		if err := s.mirroredItems(c, q, &list); err != nil {
			return err
		}
	}
	return list.write(c)
}

// write sends the page. JSON data is copied byte for byte, which json.Marshal does not do.
func (l *itemList) write(c echo.Context) error {
	b := []byte(`{"items":[`)
	for i := range l.Items {
		item, err := l.Items[i].MarshalJSON()
		if err != nil {
			return err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	b = sluice.AppendString(append(b, `],"next_cursor":`...), l.NextCursor)
	return c.JSONBlob(http.StatusOK, append(b, '}'))
}

// itemsOf parses the parameters. The cursor is ".SEQ" for own entries and "MIRROR.POSITION" for
// mirrored ones.
func itemsOf(c echo.Context) (q itemsQuery, err error) {
	if err := httpkit.OneOf(c, "source", itemsLocal, itemsMirrored, itemsAll); err != nil {
		return q, err
	}
	q = itemsQuery{ns: c.Param("ns"), source: c.QueryParam("source"), prefix: c.QueryParam("path_prefix")}
	only := c.QueryParam("subscription")
	if q.source == "" {
		q.source = itemsLocal
		if only != "" {
			q.source = itemsMirrored
		}
	}
	if q.limit, err = httpkit.Limit(c); err != nil {
		return q, err
	}
	q.limit = cmp.Or(q.limit, defaultItems)
	if after := c.QueryParam("after"); after != "" {
		id, place, _ := strings.Cut(after, ".")
		if q.after, err = strconv.ParseUint(place, 10, 64); err != nil {
			return q, sluice.Errorf(sluice.InvalidRequest, "after %q: use the next_cursor of a page", after).With("field", "after")
		}
		q.mirror = id
	}
	return q, nil
}

const defaultItems = 100

// localItems adds a page of the namespace's own entries, and reports whether the page ends there.
func (s *Handler) localItems(c echo.Context, q *itemsQuery, list *itemList) (done bool, err error) {
	visible := s.needs.Rights.Visible(c, sluice.VerbRead)
	page, err := s.opts.Changes.Changes(c.Request().Context(), q.ns, model.ChangeQuery{
		Since: q.after, Limit: q.limit,
		Visible: func(ev *sluice.Event) bool {
			return strings.HasPrefix(string(ev.Path), q.prefix) && (visible == nil || visible(ev))
		},
	})
	if err != nil {
		return true, err
	}
	if page.Items, err = s.shownChanges(c, page.Items, sluice.DepthFull); err != nil {
		return true, err
	}
	for _, change := range page.Items {
		if change.Op != sluice.OpDelete {
			list.Items = append(list.Items, sluice.MirroredItem{Source: itemsLocal, Change: change})
		}
	}
	q.after = 0
	switch {
	case page.HasMore:
		list.NextCursor = "." + strconv.FormatUint(page.ThroughSeq, 10)
	case q.source == itemsAll && len(list.Items) >= q.limit:
		list.NextCursor = firstMirror
	}
	return list.NextCursor != "", nil
}

// firstMirror is the cursor before the items of all mirrors. No mirror has the id *, which is less
// than every id.
const firstMirror = "*.0"

// mirroredItems fills a page with mirrored entries. They have the label of the namespace, so the
// caller must have the right to read the whole namespace.
func (s *Handler) mirroredItems(c echo.Context, q itemsQuery, list *itemList) error {
	if s.opts.Mirrors == nil {
		return noMirrors()
	}
	if err := s.needs.Rights.Require(c, sluice.VerbRead, authz.Target{Namespace: q.ns}); err != nil {
		return err
	}
	all, err := s.opts.Mirrors.List(c.Request().Context(), q.ns)
	if err != nil {
		return err
	}
	if only := c.QueryParam("subscription"); only != "" {
		all = slices.DeleteFunc(all, func(m sluice.Mirror) bool { return m.ID != only })
		if len(all) == 0 {
			return sluice.Errorf(sluice.SubscriptionMissing, "no mirror with this id, or not visible to you")
		}
	}
	for i := range all {
		if all[i].ID < q.mirror {
			continue
		}
		after := q.after
		if all[i].ID != q.mirror {
			after = 0
		}
		if err := s.itemsOfMirror(c, &all[i], after, q, list); err != nil || list.NextCursor != "" {
			return err
		}
	}
	return nil
}

// itemsOfMirror adds entries of a mirror until the page is full, and then sets the next cursor.
func (s *Handler) itemsOfMirror(c echo.Context, m *sluice.Mirror, after uint64, q itemsQuery, list *itemList) error {
	for more := true; more; {
		if len(list.Items) >= q.limit {
			list.NextCursor = m.ID + "." + strconv.FormatUint(after, 10)
			return nil
		}
		page, err := s.opts.Mirrors.Items(c.Request().Context(), m, after, q.limit-len(list.Items))
		if err != nil {
			return err
		}
		after, more = page.Next, page.More
		for _, item := range page.Items {
			if strings.HasPrefix(string(item.Change.Event.Path), q.prefix) {
				list.Items = append(list.Items, item)
			}
		}
	}
	return nil
}
