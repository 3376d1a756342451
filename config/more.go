package config

// Limits bounds what there may be.
type Limits struct {
	// SubscriptionsPerNamespace is how many subscriptions a namespace may have; 0: any number; 10000.
	SubscriptionsPerNamespace int `json:"subscriptions_per_namespace" env:"SUBSCRIPTIONS_PER_NAMESPACE"`
}

// Export is about copies in files.
type Export struct {
	// Dir is a directory below which dead letters (events/dlq) and events (logs/events) are
	// written to files, for all namespaces; empty: they are not.
	Dir string `json:"dir" env:"DIR"`
}

// Tracing is where traces go.
type Tracing struct {
	// Endpoint is the base URL of an OTLP/HTTP collector, such as http://127.0.0.1:4318; traces go
	// to /v1/traces below it. Empty: OTEL_EXPORTER_OTLP_ENDPOINT, and if that is empty too, none.
	Endpoint string `json:"endpoint" env:"ENDPOINT"`
}
