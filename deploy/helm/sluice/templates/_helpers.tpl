{{- define "sluice.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "sluice.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "sluice.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "sluice.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ include "sluice.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "sluice.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sluice.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "sluice.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* The configuration: what the chart knows, and over it what the values say. */}}
{{- define "sluice.config" -}}
{{- $http := dict "metrics" (ternary "open" "token" .Values.metrics.open) -}}
{{- if .Values.publicURL -}}
{{- $_ := set $http "public_url" .Values.publicURL -}}
{{- else if .Values.ingress.enabled -}}
{{- $_ := set $http "public_url" (printf "%s://%s" (ternary "https" "http" (ne .Values.ingress.tlsSecret "")) .Values.ingress.host) -}}
{{- else -}}
{{- $_ := set $http "public_url" (printf "%s://%s.%s.svc:%v" (include "sluice.scheme" .Values) (include "sluice.fullname" .) .Release.Namespace .Values.service.port) -}}
{{- end -}}
{{- $nats := dict -}}
{{- if .Values.nats.prefix -}}{{- $_ := set $nats "prefix" .Values.nats.prefix -}}{{- end -}}
{{- if .Values.nats.url -}}
{{- $_ := set $nats "url" .Values.nats.url -}}
{{- $_ := set $nats "replicas" .Values.nats.replicas -}}
{{- if .Values.nats.domain -}}{{- $_ := set $nats "domain" .Values.nats.domain -}}{{- end -}}
{{- if .Values.nats.existingSecret -}}{{- $_ := set $nats "credentials" (printf "/etc/sluice/nats/%s" .Values.nats.credentialsKey) -}}{{- end -}}
{{- if .Values.nats.caSecret -}}{{- $_ := set $nats "tls" (dict "ca" (printf "/etc/sluice/nats-ca/%s" .Values.nats.caKey)) -}}{{- end -}}
{{- end -}}
{{- $known := dict "http" $http "nats" $nats "log" (dict "format" "json") -}}
{{- mustMergeOverwrite $known (deepCopy .Values.config) | toYaml -}}
{{- end -}}

{{/* The scheme of the port http. */}}
{{- define "sluice.scheme" -}}
{{- if dig "http" "tls" "cert" "" .config -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{/* A probe of a path. */}}
{{- define "sluice.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
  {{- if eq (include "sluice.scheme" .values) "https" }}
  scheme: HTTPS
  {{- end }}
{{- end -}}
