{{/* The driver's container, beside the daemon's. */}}
{{- define "tierwise.dra.container" -}}
{{- $claims := eq (include "tierwise.dra.mode" .) "claims" -}}
- name: dra
  image: "{{ .Values.dra.image.repository }}@{{ .Values.dra.image.digest }}"
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - -mode={{ include "tierwise.dra.mode" . }}
    - -kubelet={{ .Values.dra.kubeletDirectory }}
  env:
    - name: NODE_NAME
      valueFrom:
        fieldRef: {fieldPath: spec.nodeName}
  securityContext:
    privileged: false
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    # The sockets of the kubelet and of the daemon belong to root.
    runAsUser: 0
    runAsGroup: 0
    capabilities:
      drop: [ALL]
    seccompProfile: {type: RuntimeDefault}
    # No appArmorProfile: where there is AppArmor, the runtime's own holds. A kubelet without it
    # refuses a pod that names that one.
  resources: {{- toYaml .Values.dra.resources | nindent 4 }}
  volumeMounts:
    # The daemon takes claims there, and no other command.
    - {name: claims, mountPath: /run/tierwise-claims}
    - name: account
      mountPath: /var/run/secrets/kubernetes.io/serviceaccount
      readOnly: true
    {{- if $claims }}
    # The kubelet knows the sockets by the same paths.
    - name: plugin
      mountPath: {{ .Values.dra.kubeletDirectory }}/plugins/fast-memory.tierwise.io
    - name: registry
      mountPath: {{ .Values.dra.kubeletDirectory }}/plugins_registry
    {{- end }}
{{- end }}

{{- define "tierwise.dra.volumes" -}}
{{- $claims := eq (include "tierwise.dra.mode" .) "claims" -}}
- name: claims
  hostPath: {path: /run/tierwise-claims, type: DirectoryOrCreate}
# What the kubelet would mount into every container, for the driver alone.
- name: account
  projected:
    defaultMode: 0400
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3607}
      - configMap:
          name: kube-root-ca.crt
          items:
            - {key: ca.crt, path: ca.crt}
      - downwardAPI:
          items:
            - path: namespace
              fieldRef: {fieldPath: metadata.namespace}
{{- if $claims }}
- name: plugin
  hostPath:
    path: {{ .Values.dra.kubeletDirectory }}/plugins/fast-memory.tierwise.io
    type: DirectoryOrCreate
- name: registry
  hostPath:
    path: {{ .Values.dra.kubeletDirectory }}/plugins_registry
    type: Directory
{{- end }}
{{- end }}
