package app

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

// tracing creates spans of publishing and of attempts, and carries the trace between them in the
// event's traceparent attribute. A nil *tracing does nothing.
type tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	carry    propagation.TraceContext
}

// newTracing returns nil if neither the settings nor the environment name a collector.
func newTracing(ctx context.Context, collector, version string) (*tracing, error) {
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
	return tracingTo(sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))), nil
}

func tracingTo(provider *sdktrace.TracerProvider) *tracing {
	return &tracing{provider: provider, tracer: provider.Tracer("github.com/sluice-io/sluice")}
}

// close sends the remaining spans.
func (t *tracing) close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// inject writes the trace that ctx carries into a request's header.
func (t *tracing) inject(ctx context.Context, h http.Header) {
	t.carry.Inject(ctx, propagation.HeaderCarrier(h))
}

// publisher stores events.
type publisher interface {
	Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error)
}

// tracedPublisher creates a span for each stored event.
type tracedPublisher struct {
	publisher

	tracing *tracing
}

// Publish stores the events with the span's trace as their own.
func (p tracedPublisher) Publish(ctx context.Context, namespace string, events []sluice.Event) ([]sluice.Stored, error) {
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
	return p.publisher.Publish(ctx, namespace, events)
}

// sender makes attempts.
type sender interface {
	Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int) sluice.Attempt
}

// tracedSender creates a span for each attempt, below the event's own trace.
type tracedSender struct {
	sender

	tracing *tracing
}

// Send makes an attempt within a span.
func (s tracedSender) Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int) sluice.Attempt {
	parent := s.tracing.carry.Extract(ctx, propagation.MapCarrier(ev.Extensions))
	ctx, span := s.tracing.tracer.Start(parent, "attempt", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("namespace", sub.Namespace), attribute.String("subscription", sub.ID),
			attribute.String("event", ev.ID), attribute.Int("number", number)))
	defer span.End()
	a := s.sender.Send(ctx, sub, ev, number)
	span.SetAttributes(attribute.String("outcome", string(a.Outcome)), attribute.Int("http.response.status_code", a.Status))
	if a.Outcome != sluice.Delivered {
		span.SetStatus(codes.Error, a.Error)
	}
	return a
}
