{{- define "stack.labels" -}}
{{ include "stack.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "stack.selector" -}}
app.kubernetes.io/name: stackyard
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: stack
{{- end }}

{{- define "stack.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
