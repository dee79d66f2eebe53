{{- define "tierwise.labels" -}}
app.kubernetes.io/name: tierwise
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "tierwise.selector" -}}
app.kubernetes.io/name: tierwise
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The configuration writes KiB for what Kubernetes calls Ki. */}}
{{- define "tierwise.amount" -}}
{{ printf "%sB" . | quote }}
{{- end }}
