// Package tracing creates spans for publishing and for attempts.
package tracing

import (
	"context"
	"maps"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Tracing creates spans for publishing and for attempts, and carries the trace between them in the
// event's attribute traceparent. A nil *Tracing does nothing.
type Tracing struct {
	tracer trace.Tracer
	carry  propagation.TraceContext
}

// New returns a Tracing that uses the provider; nil if the provider is nil.
func New(provider trace.TracerProvider) *Tracing {
	if provider == nil {
		return nil
	}
	return &Tracing{tracer: provider.Tracer("github.com/sluice-io/sluice")}
}

// Inject writes the trace that ctx carries into the header of a request.
func (t *Tracing) Inject(ctx context.Context, h http.Header) {
	if t == nil {
		return
	}
	t.carry.Inject(ctx, propagation.HeaderCarrier(h))
}

// Publisher stores events.
type Publisher interface {
	Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error)
}

// Publisher returns a publisher that creates a span for each stored event.
func (t *Tracing) Publisher(to Publisher) Publisher {
	if t == nil {
		return to
	}
	return publisher{to, t}
}

type publisher struct {
	Publisher

	tracing *Tracing
}

// Publish stores the events, each with the trace of its span.
func (p publisher) Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
	for i := range events {
		ev := &events[i]
		attrs := maps.Clone(ev.Extensions)
		if attrs == nil {
			attrs = map[string]string{}
		}
		parent := p.tracing.carry.Extract(ctx, propagation.MapCarrier(attrs))
		within, span := p.tracing.tracer.Start(parent, "publish", trace.WithSpanKind(trace.SpanKindProducer),
			trace.WithAttributes(attribute.String("namespace", namespace), attribute.String("event", ev.ID)))
		defer span.End()
		p.tracing.carry.Inject(within, propagation.MapCarrier(attrs))
		ev.Extensions = attrs
	}
	return p.Publisher.Publish(ctx, namespace, events)
}

// Sender makes attempts.
type Sender interface {
	Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) sluice.Attempt
}

// Sender returns a sender that creates a span for each attempt, in the event's trace.
func (t *Tracing) Sender(by Sender) Sender {
	if t == nil {
		return by
	}
	return sender{by, t}
}

type sender struct {
	Sender

	tracing *Tracing
}

// Send makes an attempt within a span of the first event's trace.
func (s sender) Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) sluice.Attempt {
	parent := s.tracing.carry.Extract(ctx, propagation.MapCarrier(ev.Extensions))
	ctx, span := s.tracing.tracer.Start(parent, "attempt", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("namespace", sub.Namespace), attribute.String("subscription", sub.ID),
			attribute.String("event", ev.ID), attribute.Int("number", number)))
	defer span.End()
	a := s.Sender.Send(ctx, sub, ev, number, more...)
	if len(a.Batch) > 0 {
		span.SetAttributes(attribute.Int("events", len(a.Batch)))
	}
	span.SetAttributes(attribute.String("outcome", string(a.Outcome)), attribute.Int("http.response.status_code", a.Status))
	if a.Outcome != sluice.Delivered {
		span.SetStatus(codes.Error, a.Error)
	}
	return a
}
