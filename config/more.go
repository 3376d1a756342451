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

// Secrets is about the keys that what is secret in the store is sealed with. Whatever names
// them, the first seals and all open: a new key is put in front, and the old one removed when
// nothing is sealed with it any more.
type Secrets struct {
	// Key is one key or several divided by commas, the newest first, each base64 of 32 bytes; it
	// goes before KeyFile, and belongs into the variable SLUICE_SECRETS_KEY rather than into a
	// file; empty: KeyFile.
	Key string `json:"key" env:"KEY"`
	// KeyFile has one key a line, the newest first, and can be read by nobody else; empty:
	// secrets.key in Data, which the first start makes.
	KeyFile string `json:"key_file" env:"KEY_FILE"`
}
