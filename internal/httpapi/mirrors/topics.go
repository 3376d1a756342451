package mirrors

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// topicsQuery selects topics. The lists of local and of mirrored topics both continue from the
// cursor.
type topicsQuery struct {
	ns, prefix string
	mirrored   bool
	limit      int
	from       topicsCursor
}

// topicsCursor is how far both lists have been read. Its text is the base64 of JSON, and opaque to
// clients.
type topicsCursor struct {
	At    uint64 `json:"a,omitempty"` // sequence of the list of local topics
	After uint64 `json:"b,omitempty"` // position in it
	Local bool   `json:"l,omitempty"` // it has ended

	Mirror string      `json:"m,omitempty"`
	Topic  sluice.Path `json:"t,omitempty"` // the last topic of the mirror that was listed
	Copies bool        `json:"c,omitempty"` // the list of mirrored topics has ended
}

// text returns the text of the cursor; "" when both lists have ended.
func (c topicsCursor) text() (string, error) {
	if c.Local && c.Copies {
		return "", nil
	}
	text, err := json.Marshal(c)
	return base64.RawURLEncoding.EncodeToString(text), err
}

// topicList is a page of the topics of a namespace: its own in the order of their last event, and
// those of its mirrors ordered by mirror and name.
type topicList struct {
	Topics     []sluice.Topic         `json:"topics"`
	Mirrored   []sluice.MirroredTopic `json:"mirrored_topics,omitzero"` // nil: they were not asked for
	NextCursor string                 `json:"next_cursor"`
}

// listTopics returns a page of the paths of a namespace and, on request, of its mirrors (S3-113,
// S3-114). The limit applies to each list. A page may have fewer elements and not be the last. The
// cursor continues both lists: that of the namespace as of one sequence, that of the mirrors as
// they are then. Codes NotFound; WindowExceeded; Unprocessable if a mirror has too many paths.
func (s *Handler) listTopics(c echo.Context) error {
	q, err := topicsOf(c)
	if err != nil {
		return err
	}
	list, next := topicList{Topics: []sluice.Topic{}}, q.from
	next.Copies = next.Copies || !q.mirrored
	if !next.Local {
		if err := s.localTopics(c, q, &list, &next); err != nil {
			return err
		}
	}
	if q.mirrored {
		list.Mirrored = []sluice.MirroredTopic{}
		if err := s.mirroredTopics(c, q, &list, &next); err != nil {
			return err
		}
	}
	if list.NextCursor, err = next.text(); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, list)
}

// topicsOf parses the parameters. Code InvalidRequest for a malformed cursor.
func topicsOf(c echo.Context) (q topicsQuery, err error) {
	p, err := httpkit.PageOf(c)
	if err != nil {
		return q, err
	}
	if err := httpkit.OneOf(c, "include_mirrored", "true", "false"); err != nil {
		return q, err
	}
	q = topicsQuery{ns: c.Param("ns"), prefix: c.QueryParam("path_prefix"), mirrored: c.QueryParam("include_mirrored") == "true", limit: p.Limit}
	if p.Cursor != "" {
		text, err := base64.RawURLEncoding.DecodeString(p.Cursor)
		if err != nil || json.Unmarshal(text, &q.from) != nil {
			return q, model.ForeignCursor(p.Cursor)
		}
	}
	return q, nil
}

// localTopics adds topics of the namespace itself whose last event the caller may read. It leaves
// out reserved paths, to which only the server writes.
func (s *Handler) localTopics(c echo.Context, q topicsQuery, list *topicList, next *topicsCursor) error {
	visible := s.needs.Rights.Visible(c, sluice.VerbRead)
	wants := func(ev *sluice.Event) bool {
		return !ev.Path.Reserved() && strings.HasPrefix(string(ev.Path), q.prefix) && (visible == nil || visible(ev))
	}
	query := model.StateQuery{At: next.At, After: next.After, Limit: q.limit, Visible: wants, Pattern: covering(q.prefix)}
	if granted := s.needs.Rights.Granted(c); visible != nil && granted != "" {
		query.Pattern = granted
	}
	page, err := s.needs.Log.State(c.Request().Context(), q.ns, query)
	if err != nil {
		return err
	}
	shown, err := s.needs.Rights.Shown(c, sluice.VerbRead, page.Events)
	if err != nil {
		return err
	}
	for i := range shown {
		list.Topics = append(list.Topics, sluice.Topic{Topic: shown[i].Path, LatestSequence: shown[i].Seq})
	}
	next.At, next.After, next.Local = page.Seq, page.Next, page.Next == 0
	return nil
}

// covering returns a pattern that matches all paths with a prefix, and few others.
func covering(prefix string) sluice.Pattern {
	pattern, err := sluice.ParsePattern(prefix[:strings.LastIndexByte(prefix, '/')+1] + "**")
	if err != nil {
		return "/**"
	}
	return pattern
}

// mirroredTopics adds topics of mirrors. They have the label of the namespace, so the caller must
// have the right to read the whole namespace.
func (s *Handler) mirroredTopics(c echo.Context, q topicsQuery, list *topicList, next *topicsCursor) error {
	if s.opts.Mirrors == nil {
		return noMirrors()
	}
	if err := s.needs.Rights.Require(c, sluice.VerbRead, authz.Target{Namespace: q.ns}); err != nil || next.Copies {
		return err
	}
	all, err := s.opts.Mirrors.List(c.Request().Context(), q.ns)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].ID < q.from.Mirror {
			continue
		}
		topics, err := s.opts.Mirrors.Topics(c.Request().Context(), &all[i], q.prefix)
		if err != nil {
			return err
		}
		if all[i].ID == q.from.Mirror {
			topics = topics[after(topics, q.from.Topic):]
		}
		room := q.limit - len(list.Mirrored)
		list.Mirrored = append(list.Mirrored, topics[:min(room, len(topics))]...)
		if room < len(topics) {
			last := list.Mirrored[len(list.Mirrored)-1]
			next.Mirror, next.Topic = last.Subscription, last.Topic
			return nil
		}
	}
	next.Copies, next.Mirror, next.Topic = true, "", ""
	return nil
}

// after returns the index of the first topic after last in a list that is ordered by name.
func after(topics []sluice.MirroredTopic, last sluice.Path) int {
	at, found := slices.BinarySearchFunc(topics, last, func(t sluice.MirroredTopic, last sluice.Path) int {
		return strings.Compare(string(t.Topic), string(last))
	})
	if found {
		at++
	}
	return at
}
