// Package otlp sends traces, metrics and the log to an OpenTelemetry collector over OTLP/HTTP. The
// collector of each signal is set by settings, or else by the OTEL_* variables of the OpenTelemetry
// specification.
package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/sluice-io/sluice"

const (
	closeLimit    = 2 * time.Second // for sending the rest to a collector that may be unreachable
	complainEvery = time.Minute
)

// Options are the destinations of signals and the settings of their export.
type Options struct {
	Traces, Metrics, Logs string // base URLs of collectors; "": from the environment

	SampleRatio float64 // share of traces that begin here, from 0 to 1; 1: from the environment, or all
	Version     string
	Getenv      func(string) string // reads the OTEL_* variables
	Log         slog.Handler        // gets failures of exporting; its records also go to the collector
}

// Exporter sends the signals that have a collector. Close sends the rest.
type Exporter struct {
	about   *resource.Resource
	traces  *sdktrace.TracerProvider // nil: no collector
	logs    *sdklog.LoggerProvider   // nil: no collector
	log     *slog.Logger
	metrics *metrics // nil: no collector
}

// metrics is the exporter of metrics and, after Gather, their reader.
type metrics struct {
	sdkmetric.Exporter

	mu   sync.Mutex
	read *sdkmetric.MeterProvider
}

// New returns an exporter, which sends nothing if no signal has a collector. Code InvalidRequest
// for a variable with an invalid value.
func New(ctx context.Context, opts Options) (*Exporter, error) {
	e := &Exporter{log: slog.New(opts.Log)}
	to, err := destinations(opts)
	if err != nil || to == (destined{}) {
		return e, err
	}
	if e.about, err = about(ctx, opts.Version); err != nil {
		return nil, err
	}
	if err := e.open(ctx, to, opts.SampleRatio); err != nil {
		return nil, err
	}
	complaints := &complaints{log: e.log}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(complaints.add))
	return e, nil
}

// about returns the attributes that describe this process to the collector.
// OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME override them.
func about(ctx context.Context, version string) (*resource.Resource, error) {
	is, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(
		attribute.String("service.name", "sluice"), attribute.String("service.version", version),
		attribute.String("service.instance.id", uuid.NewString()),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OpenTelemetry resource: %w", err)
	}
	return is, nil
}

func (e *Exporter) open(ctx context.Context, to destined, ratio float64) error {
	if to.traces.on {
		exporter, err := otlptracehttp.New(ctx, options(to.traces, otlptracehttp.WithEndpointURL)...)
		if err != nil {
			return fmt.Errorf("tracing: %w", err)
		}
		opts := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(exporter), sdktrace.WithResource(e.about)}
		if ratio < 1 { // otherwise OTEL_TRACES_SAMPLER applies
			opts = append(opts, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))))
		}
		e.traces = sdktrace.NewTracerProvider(opts...)
	}
	if to.metrics.on {
		exporter, err := otlpmetrichttp.New(ctx, options(to.metrics, otlpmetrichttp.WithEndpointURL)...)
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		e.metrics = &metrics{Exporter: exporter}
	}
	if to.logs.on {
		exporter, err := otlploghttp.New(ctx, options(to.logs, otlploghttp.WithEndpointURL)...)
		if err != nil {
			return fmt.Errorf("log: %w", err)
		}
		e.logs = sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)), sdklog.WithResource(e.about))
	}
	return nil
}

// options returns the option that sets an endpoint; none if the exporter reads it from the environment.
func options[O any](to destination, endpoint func(string) O) []O {
	if to.url == "" {
		return nil
	}
	return []O{endpoint(to.url)}
}

// TracerProvider returns the provider of spans; nil without a collector of traces.
func (e *Exporter) TracerProvider() trace.TracerProvider {
	if e.traces == nil {
		return nil
	}
	return e.traces
}

// Handler returns a handler that sends records to the collector for the levels that like is enabled
// for; nil without a collector of logs.
func (e *Exporter) Handler(like slog.Handler) slog.Handler {
	if e.logs == nil {
		return nil
	}
	return leveled{otelslog.NewHandler(scope, otelslog.WithLoggerProvider(e.logs)), like}
}

// leveled is a handler that is enabled for the same levels as another one.
type leveled struct {
	slog.Handler

	like slog.Handler
}

func (l leveled) Enabled(ctx context.Context, level slog.Level) bool {
	return l.like.Enabled(ctx, level)
}

func (l leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{l.Handler.WithAttrs(attrs), l.like}
}

func (l leveled) WithGroup(name string) slog.Handler {
	return leveled{l.Handler.WithGroup(name), l.like}
}

// Gather sends the metrics of a producer every minute, or in the interval of
// OTEL_METRIC_EXPORT_INTERVAL. Call it once.
func (e *Exporter) Gather(from sdkmetric.Producer) {
	if e.metrics == nil {
		return
	}
	reader := sdkmetric.NewPeriodicReader(e.metrics, sdkmetric.WithProducer(from))
	e.metrics.mu.Lock()
	defer e.metrics.mu.Unlock()
	e.metrics.read = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(e.about))
}

// Close sends the rest, for at most two seconds, so that an unreachable collector does not delay a
// shutdown. It logs failures.
func (e *Exporter) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	var all sync.WaitGroup
	for signal, end := range e.ends() {
		all.Go(func() {
			if err := end(ctx); err != nil {
				e.log.WarnContext(ctx, "telemetry not sent", slog.String("signal", signal), slog.Any("error", err))
			}
		})
	}
	all.Wait()
}

func (e *Exporter) ends() map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{}
	if e.traces != nil {
		all["traces"] = e.traces.Shutdown
	}
	if e.logs != nil {
		all["logs"] = e.logs.Shutdown
	}
	if e.metrics != nil {
		e.metrics.mu.Lock()
		defer e.metrics.mu.Unlock()
		all["metrics"] = e.metrics.Shutdown
		if e.metrics.read != nil {
			all["metrics"] = e.metrics.read.Shutdown
		}
	}
	return all
}

// complaints logs failures of exporting, at most one a minute, because an unreachable collector
// causes one every few seconds. They go only to the local log, because sending them to the
// collector would fail, too.
type complaints struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
	more int
}

func (c *complaints) add(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.last) < complainEvery {
		c.more++
		return
	}
	c.log.Warn("telemetry not sent", slog.Any("error", err), slog.Int("more", c.more))
	c.last, c.more = time.Now(), 0
}
