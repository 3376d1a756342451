// Package knowledgecmd is the command knowledge: the enrichment of namespaces, neighbours of entries, and the jobs of workers.
package knowledgecmd
