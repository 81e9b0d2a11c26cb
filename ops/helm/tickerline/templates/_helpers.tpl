{{/* Name of the release with that of the chart, short enough for the suffixes of the templates. */}}
{{- define "tickerline.name" -}}
{{- $name := contains "tickerline" .Release.Name | ternary .Release.Name (printf "%s-tickerline" .Release.Name) -}}
{{- $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels by which Services and policies select Pods. Argument: the context and the component. */}}
{{- define "tickerline.selector" -}}
{{- $context := index . 0 -}}
app.kubernetes.io/name: tickerline
app.kubernetes.io/instance: {{ $context.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* All labels. Argument: the context and the component. */}}
{{- define "tickerline.labels" -}}
{{- $context := index . 0 -}}
{{ include "tickerline.selector" . }}
app.kubernetes.io/version: {{ $context.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $context.Release.Service }}
helm.sh/chart: {{ $context.Chart.Name }}-{{ $context.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "tickerline.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "tickerline.name" .) "default") -}}
{{- end -}}

{{/* What the Pods of the service and of the migration have in common. */}}
{{- define "tickerline.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  # The user of the image.
  runAsUser: 1000
  runAsGroup: 1000
  # Lets this group read the mounted secrets, which belong to root.
  fsGroup: 1000
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* What both containers have in common. */}}
{{- define "tickerline.container" -}}
{{- $image := .Values.image -}}
image: {{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
imagePullPolicy: {{ $image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "tickerline.volumeMounts" -}}
- name: secrets
  mountPath: /run/secrets/tickerline
  readOnly: true
- name: temporary-files
  mountPath: /tmp
{{- with .Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Volumes. Arguments: the context, the name of the Secret, and its keys by setting. */}}
{{- define "tickerline.volumes" -}}
{{- $context := index . 0 -}}
- name: secrets
  secret:
    secretName: {{ index . 1 }}
    # 0440: readable by `fsGroup`.
    defaultMode: 288
    items:
      {{- range $setting, $key := index . 2 }}
      - key: {{ $key }}
        path: {{ $setting }}
      {{- end }}
- name: temporary-files
  emptyDir:
    sizeLimit: {{ $context.Values.temporaryFiles.sizeLimit }}
{{- with $context.Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Variables that name the files of secrets. Argument: the keys by setting. */}}
{{- define "tickerline.secretFiles" -}}
{{- range $setting, $key := . }}
- name: {{ $setting }}_FILE
  value: /run/secrets/tickerline/{{ $setting }}
{{- end }}
{{- end -}}

{{/*
Text of a setting in `config`. Arguments: name and value. Helm reads a number as a float, which it would print as 1e+07,
and YAML reads on and off without quotes as true and false.
*/}}
{{- define "tickerline.text" -}}
{{- $name := index . 0 -}}
{{- $value := index . 1 -}}
{{- if kindIs "float64" $value }}{{ int64 $value -}}
{{- else if and (kindIs "bool" $value) (eq $name "WEBHOOKS") }}{{ $value | ternary "on" "off" -}}
{{- else }}{{ $value }}{{ end -}}
{{- end -}}

{{/* Port of a URL, also if it is the default of its scheme. */}}
{{- define "tickerline.port" -}}
{{- $url := urlParse . -}}
{{- regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) | default (eq $url.scheme "https" | ternary "443" "80") -}}
{{- end -}}

{{/* Egress rules to PostgreSQL and DNS. */}}
{{- define "tickerline.egress" -}}
- ports:
    - { protocol: UDP, port: 53 }
    - { protocol: TCP, port: 53 }
- ports:
    {{- range .Values.networkPolicy.databasePorts }}
    - { protocol: TCP, port: {{ . }} }
    {{- end }}
  {{- with .Values.networkPolicy.databasePeers }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
