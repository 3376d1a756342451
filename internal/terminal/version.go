package terminal

import "runtime/debug"

const unversioned = "(devel)"

// Version returns the version of this build: a release's tag, or else the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unversioned
	}
	return versionOf(info)
}

// versionOf returns the version from the build information: a release's tag, or else the commit.
func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != unversioned {
		return v
	}
	known := map[string]string{}
	for _, s := range info.Settings {
		known[s.Key] = s.Value
	}
	commit := known["vcs.revision"]
	if commit == "" {
		return unversioned
	}
	if known["vcs.modified"] == "true" {
		commit += "+dirty"
	}
	return commit
}
