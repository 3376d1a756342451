package sluice

// Setting is a setting of a server: its name as in the configuration file (http.max_body), and its
// value as JSON. Passwords, tokens and keys are replaced by HiddenSetting.
type Setting struct {
	Name    string `json:"name"`
	Value   any    `json:"value"`
	Default any    `json:"default"`
	Changed bool   `json:"changed"` // whether Value differs from Default
}

// HiddenSetting stands for a secret in Setting.Value.
const HiddenSetting = "***"
