{{- /* What the pods that serve and the pods that work have in common. */ -}}
{{- define "ramet.labels" -}}
app.kubernetes.io/name: ramet
{{- end }}

{{- define "ramet.pod" -}}
{{- $root := .root -}}
metadata:
  labels:
    app.kubernetes.io/name: ramet
    app.kubernetes.io/component: {{ .component }}
  annotations:
    ramet/settings: {{ include (print $root.Template.BasePath "/settings.yaml") $root | sha256sum | trunc 16 | quote }}
spec:
  serviceAccountName: ramet
  terminationGracePeriodSeconds: 60
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile:
      type: RuntimeDefault
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          app.kubernetes.io/name: ramet
          app.kubernetes.io/component: {{ .component }}
  containers:
    - name: ramet
      image: {{ $root.Values.image }}
      imagePullPolicy: IfNotPresent
      args: [{{ .component }}]
      {{- if eq .component "serve" }}
      lifecycle:
        preStop:
          sleep:
            seconds: 5
      {{- end }}
      envFrom:
        - configMapRef:
            name: ramet-settings
        {{- with $root.Values.secretSettings }}
        - secretRef:
            name: {{ . }}
        {{- end }}
      env:
        - name: STORE_USER
          valueFrom:
            secretKeyRef: {name: ramet-store-app, key: username}
        - name: STORE_PASSWORD
          valueFrom:
            secretKeyRef: {name: ramet-store-app, key: password}
        - name: RAMET_DATABASE_URL
          value: postgresql+psycopg://$(STORE_USER):$(STORE_PASSWORD)@ramet-store-rw:5432/ramet?sslmode=verify-full&sslrootcert=/etc/ramet/store/ca.crt
      ports:
        - name: http
          containerPort: {{ .port }}
      startupProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 1
        failureThreshold: 120
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 2
        timeoutSeconds: 3
      livenessProbe:
        httpGet: {path: /livez, port: http}
        periodSeconds: 10
        timeoutSeconds: 5
      resources: {{- toYaml $root.Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - {name: data, mountPath: /var/lib/ramet}
        - {name: temporary, mountPath: /tmp}
        - {name: secrets, mountPath: /var/lib/ramet/secrets, readOnly: true}
        - {name: store, mountPath: /etc/ramet/store, readOnly: true}
  volumes:
    - name: data
      emptyDir: {}
    - name: temporary
      emptyDir: {}
    - name: secrets
      secret:
        secretName: {{ $root.Values.secretFiles }}
        defaultMode: 0440
    - name: store
      secret:
        secretName: ramet-store-ca
        items:
          - {key: ca.crt, path: ca.crt}
{{- end }}
