module github.com/sluice-io/sluice/scripts/esbuild

go 1.26.7

require github.com/evanw/esbuild v0.28.2
