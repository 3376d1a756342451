// Package tracing creates spans of publishing and of attempts, and sends them to a collector.
package tracing

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Tracing creates spans of publishing and of attempts, and carries the trace between them in the
// event's traceparent attribute. A nil *Tracing does nothing.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	carry    propagation.TraceContext
}

// New returns nil if neither the settings nor the environment name a collector.
func New(ctx context.Context, collector, version string) (*Tracing, error) {
	var opts []otlptracehttp.Option
	switch {
	case collector != "":
		opts = append(opts, otlptracehttp.WithEndpointURL(strings.TrimSuffix(collector, "/")+"/v1/traces"))
	case os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "":
		return nil, nil //nolint:nilnil // documented
	}
	exporter, err := otlptracehttp.New(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	about := resource.NewSchemaless(attribute.String("service.name", "sluice"), attribute.String("service.version", version))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return &Tracing{provider: provider, tracer: provider.Tracer("github.com/sluice-io/sluice")}, nil
}

// Close sends the remaining spans.
func (t *Tracing) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Inject writes the trace that ctx carries into a request's header.
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

// Publish stores the events with the span's trace as their own.
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
	Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int) sluice.Attempt
}

// Sender returns a sender that creates a span for each attempt, below the event's own trace.
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

// Send makes an attempt within a span.
func (s sender) Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int) sluice.Attempt {
	parent := s.tracing.carry.Extract(ctx, propagation.MapCarrier(ev.Extensions))
	ctx, span := s.tracing.tracer.Start(parent, "attempt", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("namespace", sub.Namespace), attribute.String("subscription", sub.ID),
			attribute.String("event", ev.ID), attribute.Int("number", number)))
	defer span.End()
	a := s.Sender.Send(ctx, sub, ev, number)
	span.SetAttributes(attribute.String("outcome", string(a.Outcome)), attribute.Int("http.response.status_code", a.Status))
	if a.Outcome != sluice.Delivered {
		span.SetStatus(codes.Error, a.Error)
	}
	return a
}
