package eventlog

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/streams"
)

const (
	inspectAtOnce = 16              // requests that are processed concurrently; further ones wait
	inspectIdle   = 5 * time.Minute // after which the unused consumer of an inspector is deleted
)

// codeConsumerExists is the error code of JetStream if a consumer with the name exists.
const codeConsumerExists = 10148

// Inspections creates the consumers of clients that may only read (natsd.Inspector), so that they
// need no access to other consumers: reading from the consumer of a subscription, acknowledging its
// deliveries or changing it would stop deliveries.
type Inspections struct {
	core *natsstore.Store
	sub  *nats.Subscription
	free chan struct{} // contains one element for each request that is being processed
	work sync.WaitGroup
}

// OpenInspections starts to answer the requests of inspectors. Run stops that. Requests that are
// sent after OpenInspections has returned are answered.
func OpenInspections(ctx context.Context, core *natsstore.Store) (*Inspections, error) {
	ctx, cancel := context.WithTimeout(ctx, natsstore.RequestTimeout)
	defer cancel()
	in := &Inspections{core: core, free: make(chan struct{}, inspectAtOnce)}
	_, arrives := core.Names().InspectCreate()
	sub, err := core.Conn().Subscribe(arrives, in.take)
	if err == nil {
		err = core.Conn().FlushWithContext(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("inspection: %w", err)
	}
	in.sub = sub
	return in, nil
}

// Run waits until ctx is done, and stops answering. It returns nil then.
func (in *Inspections) Run(ctx context.Context) error {
	<-ctx.Done()
	err := in.sub.Unsubscribe()
	in.work.Wait()
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("inspection: %w", err)
	}
	return nil
}

func (in *Inspections) take(msg *nats.Msg) {
	stream, ok := in.core.Names().ParseInspectCreate(msg.Subject)
	if !ok || msg.Reply == "" {
		return
	}
	in.free <- struct{}{}
	in.work.Go(func() {
		defer func() { <-in.free }()
		if err := msg.Respond(in.create(stream, msg.Data)); err != nil {
			in.core.Log().Warn("response to an inspector", slog.Any("error", err))
		}
	})
}

// create returns the answer of JetStream to a request for a consumer, or a refusal. The consumer
// gets the first free name: JetStream deletes an unused one, which makes its name free.
func (in *Inspections) create(stream string, body []byte) []byte {
	config, err := inspectorsConfig(body)
	if err != nil {
		return refusal(http.StatusForbidden, codeBadRequest, err.Error())
	}
	names := streams.InspectorConsumers()
	for _, name := range names {
		config["name"] = name
		request, err := json.Marshal(map[string]any{"stream_name": stream, "config": config, "action": "create"})
		if err != nil {
			return refusal(http.StatusBadRequest, codeBadRequest, err.Error())
		}
		filter, _ := config["filter_subject"].(string)
		msg, err := in.core.Conn().Request(streams.ConsumerCreate(stream, name, filter), request, natsstore.RequestTimeout)
		if err != nil {
			return refusal(http.StatusServiceUnavailable, codeUnavailable, err.Error())
		}
		var answer struct {
			Error *jetstream.APIError `json:"error"`
		}
		if json.Unmarshal(msg.Data, &answer) != nil || answer.Error == nil || answer.Error.ErrorCode != codeConsumerExists {
			return msg.Data
		}
	}
	return refusal(http.StatusTooManyRequests, codeBadRequest, fmt.Sprintf(
		"%s: %d consumers are open for inspection, the limit; close some, or wait %s until idle ones expire", stream, len(names), inspectIdle))
}

// inspectorsConfig returns the configuration for a consumer of an inspector, from the requested
// one: the consumer has no acknowledgements, delivers to an inbox and is deleted when it is unused,
// even if the request is for a durable one, like that of "nats stream view".
func inspectorsConfig(body []byte) (map[string]any, error) {
	var request struct {
		Config map[string]any `json:"config"`
	}
	if err := json.Unmarshal(body, &request); err != nil || request.Config == nil {
		return nil, errors.New("the request has no JSON consumer configuration")
	}
	config := request.Config
	if to, ok := config["deliver_subject"]; ok && !isInbox(to) {
		return nil, errors.New("deliver_subject: use an inbox, " + nats.InboxPrefix + "…")
	}
	idle, _ := config["inactive_threshold"].(float64)
	if idle <= 0 || time.Duration(idle) > inspectIdle {
		idle = float64(inspectIdle)
	}
	for _, field := range []string{"durable_name", "deliver_group", "ack_wait", "max_ack_pending", "max_deliver", "backoff", "priority_policy", "priority_groups"} {
		delete(config, field)
	}
	config["ack_policy"], config["mem_storage"], config["inactive_threshold"] = "none", true, int64(idle)
	config["metadata"] = map[string]string{"inspection": rand.Text()} // without it JetStream would treat a request with an equal configuration as one for the existing consumer
	return config, nil
}

func isInbox(subject any) bool {
	text, ok := subject.(string)
	return ok && strings.HasPrefix(text, nats.InboxPrefix) && !strings.ContainsAny(text, "*> \t\r\n")
}
