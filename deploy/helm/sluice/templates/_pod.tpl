{{/* The template of a pod, the same in both forms. */}}
{{- define "sluice.pod" -}}
metadata:
  labels:
    {{- include "sluice.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ include "sluice.config" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "sluice.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: sluice
      image: {{ include "sluice.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [/sluice]
      args: [serve, --config, /etc/sluice/config.yaml]
      env:
        # Variables take precedence over the file; the image sets them, too.
        - {name: SLUICE_DATA, value: /data}
        - {name: SLUICE_HTTP_LISTEN, value: "0.0.0.0:8080"}
        - {name: SLUICE_NATS_LISTEN, value: {{ ternary "0.0.0.0:4222" "none" .Values.nats.expose | quote }}}
        {{- if .Values.existingSecret }}
        - name: SLUICE_SECRETS_KEY
          valueFrom: {secretKeyRef: {name: {{ .Values.existingSecret }}, key: secrets.key}}
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: http, containerPort: 8080}
        {{- if .Values.nats.expose }}
        - {name: nats, containerPort: 4222}
        {{- end }}
      # The process answers, also while it waits for its NATS.
      livenessProbe:
        {{- include "sluice.probe" (dict "path" "/livez" "values" .Values) | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      # NATS, JetStream, every stream and bucket, and the index of access can be used.
      readinessProbe:
        {{- include "sluice.probe" (dict "path" "/readyz" "values" .Values) | nindent 8 }}
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 2
      {{- if .Values.preStopSeconds }}
      lifecycle:
        preStop: {sleep: {seconds: {{ .Values.preStopSeconds }}}}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - {name: data, mountPath: /data}
        - {name: tmp, mountPath: /tmp}
        - {name: config, mountPath: /etc/sluice/config.yaml, subPath: config.yaml, readOnly: true}
        {{- if .Values.existingSecret }}
        - {name: identity, mountPath: /data/root.token, subPath: root.token, readOnly: true}
        {{- end }}
        {{- if and .Values.nats.url .Values.nats.existingSecret }}
        - {name: nats, mountPath: /etc/sluice/nats, readOnly: true}
        {{- end }}
        {{- if and .Values.nats.url .Values.nats.caSecret }}
        - {name: nats-ca, mountPath: /etc/sluice/nats-ca, readOnly: true}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- if .Values.nats.url }}
    - name: data
      emptyDir: {}
    {{- end }}
    - name: tmp
      emptyDir: {}
    - name: config
      configMap: {name: {{ include "sluice.fullname" . }}}
    {{- if .Values.existingSecret }}
    - name: identity
      secret: {secretName: {{ .Values.existingSecret }}, defaultMode: 0400}
    {{- end }}
    {{- if and .Values.nats.url .Values.nats.existingSecret }}
    - name: nats
      secret: {secretName: {{ .Values.nats.existingSecret }}, defaultMode: 0400}
    {{- end }}
    {{- if and .Values.nats.url .Values.nats.caSecret }}
    - name: nats-ca
      secret: {secretName: {{ .Values.nats.caSecret }}, defaultMode: 0400}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "sluice.selector" $ | nindent 10 }}
    {{- end }}
    {{- end }}
{{- end -}}
