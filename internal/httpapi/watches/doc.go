// Package watches serves watches over HTTP, and their dry runs.
package watches
