// Package enrichment serves the enrichment of namespaces over HTTP: its configuration, the jobs of
// its workers, searches and comparisons.
package enrichment
