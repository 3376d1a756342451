package otlp

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Variables of the OpenTelemetry specification that set the destination of signals. The exporters
// and the SDK read others themselves: headers, timeouts, certificates, intervals, the sampler and
// attributes.
const (
	endpointVariable = "OTEL_EXPORTER_OTLP_ENDPOINT"
	protocolVariable = "OTEL_EXPORTER_OTLP_PROTOCOL"
	disabledVariable = "OTEL_SDK_DISABLED"
)

// protocol is the only supported value of OTEL_EXPORTER_OTLP_PROTOCOL.
const protocol = "http/protobuf"

// destination is the collector of a signal.
type destination struct {
	on  bool
	url string // "": the exporter reads it from the environment
}

// destined has the destinations of all signals.
type destined struct{ traces, metrics, logs destination }

// destinations returns the destinations of all signals.
func destinations(opts Options) (to destined, err error) {
	for _, one := range []struct {
		of             *destination
		setting        string
		variable, path string
	}{
		{&to.traces, opts.Traces, "TRACES", "/v1/traces"},
		{&to.metrics, opts.Metrics, "METRICS", "/v1/metrics"},
		{&to.logs, opts.Logs, "LOGS", "/v1/logs"},
	} {
		if one.setting != "" {
			*one.of = destination{true, strings.TrimSuffix(one.setting, "/") + one.path}
			continue
		}
		if one.of.on, err = fromEnvironment(opts.Getenv, one.variable); err != nil {
			return destined{}, err
		}
	}
	return to, nil
}

// fromEnvironment reports whether the variables enable the export of a signal over OTLP.
// OTEL_<signal>_EXPORTER may also name other exporters, such as prometheus or console, which are
// ignored: /metrics and stderr are always enabled.
func fromEnvironment(getenv func(string) string, signal string) (bool, error) {
	own := "OTEL_EXPORTER_OTLP_" + signal
	variable, collector := own+"_ENDPOINT", getenv(own+"_ENDPOINT")
	if collector == "" {
		variable, collector = endpointVariable, getenv(endpointVariable)
	}
	exporter := cmp.Or(getenv("OTEL_"+signal+"_EXPORTER"), "otlp")
	if collector == "" || exporter != "otlp" || strings.EqualFold(getenv(disabledVariable), "true") {
		return false, nil
	}
	if u, err := url.Parse(collector); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, sluice.Errorf(sluice.InvalidRequest, "variable %s %q: write a URL such as http://127.0.0.1:4318", variable, collector)
	}
	if speaks := cmp.Or(getenv(own+"_PROTOCOL"), getenv(protocolVariable), protocol); speaks != protocol {
		return false, sluice.Errorf(sluice.InvalidRequest, "variable %s %q: only %s is supported, at the port 4318 of most collectors", protocolVariable, speaks, protocol)
	}
	return true, nil
}
