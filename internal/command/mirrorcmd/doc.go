// Package mirrorcmd is the command mirror: copies of namespaces, their bundles and the keys that these are trusted by.
package mirrorcmd
