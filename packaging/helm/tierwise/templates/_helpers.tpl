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

{{/* The driver of fast memory for the scheduler. Consumable capacity is on since 1.36. */}}
{{- define "tierwise.dra.mode" -}}
{{- if ne .Values.dra.mode "auto" }}{{ .Values.dra.mode }}
{{- else if semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version }}claims
{{- else }}extended-resource
{{- end }}
{{- end }}

{{- define "tierwise.dra.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ .Release.Name }}-dra
{{- end }}
