{{- define "agent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "agent.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "agent.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "agent.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "agent.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "agent.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "agent.selector" -}}
app.kubernetes.io/name: {{ include "agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "agent.labels" -}}
{{ include "agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* The types of events that empty the node, by the handler for them: each has a length of notice, in seconds, less
what the approval needs. It is JSON, which TOML reads too. */ -}}
{{- define "agent.types" -}}
{{- $long := list -}}
{{- if .Values.enableScheduledEventDraining }}{{ $long = concat $long (list "Reboot" "Redeploy") }}{{ end -}}
{{- if .Values.enableFreezeDraining }}{{ $long = append $long "Freeze" }}{{ end -}}
{{- $found := list (dict "handler" "empty" "seconds" 590 "types" $long) -}}
{{- if .Values.enableASGLifecycleDraining -}}
{{- $found = append $found (dict "handler" "empty-in-5-minutes" "seconds" 290 "types" (list "Terminate")) -}}
{{- end -}}
{{- if .Values.enableSpotInterruptionDraining -}}
{{- $found = append $found (dict "handler" "empty-in-30-seconds" "seconds" 28 "types" (list "Preempt")) -}}
{{- end -}}
{{- if not $long }}{{ $found = rest $found }}{{ end -}}
{{- if not $found }}{{ fail "Every enable…Draining is false, so the agent would do nothing. Enable one of them." }}{{ end -}}
{{- toJson $found -}}
{{- end -}}

{{- /* On the host's network only the kubelet of the same machine asks, unless Prometheus does too. */ -}}
{{- define "agent.listen" -}}
{{- $own := and .Values.useHostNetwork (not .Values.enablePrometheusServer) -}}
{{- printf "%s:%d" (ternary "127.0.0.1" "0.0.0.0" $own) (int .Values.probesServerPort) -}}
{{- end -}}

{{- define "agent.hasWebhook" -}}
{{- if or .Values.webhookURL .Values.webhookURLSecretName }}true{{ end -}}
{{- end -}}

{{- define "agent.config" -}}
{{- if .Values.config -}}
{{ .Values.config }}
{{- else -}}
[metadata]
endpoint = {{ .Values.instanceMetadataURL | toJson }}

[approval]
policy = {{ .Values.approvalPolicy | toJson }}
{{- if or .Values.enableProbesServer .Values.enablePrometheusServer }}

[status]
listen = {{ include "agent.listen" . | toJson }}
{{- end }}

{{- $tells := include "agent.hasWebhook" . }}
{{- $found := include "agent.types" . | fromJsonArray }}
{{- range $found }}

[[rules]]
types = {{ toJson .types }}
handlers = [{{ if $tells }}"tell", {{ end }}{{ toJson .handler }}]
{{- end }}
{{- range $found }}

[handlers.{{ .handler }}]
kind = "kubernetes"
timeout = "{{ min (int $.Values.nodeTerminationGracePeriod) (sub (int .seconds) (ternary 10 0 (eq $tells "true"))) }}s"
cordon_only = {{ $.Values.cordonOnly }}
{{- if ge (int $.Values.podTerminationGracePeriod) 0 }}
grace_period = "{{ int $.Values.podTerminationGracePeriod }}s"
{{- end }}
{{- end }}
{{- if include "agent.hasWebhook" . }}

[handlers.tell]
kind = "webhook"
required = false
timeout = "10s"
{{- if .Values.webhookURLSecretName }}
url_file = "/etc/duenotice/webhook/webhookurl"
{{- else }}
url = {{ .Values.webhookURL | toJson }}
{{- end }}
{{- with .Values.webhookTemplate }}
prepare = {{ . | toJson }}
{{- end }}
{{- with .Values.webhookHeaders }}

[handlers.tell.headers]
{{- range $name, $value := . }}
{{ $name | toJson }} = {{ $value | toString | toJson }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
