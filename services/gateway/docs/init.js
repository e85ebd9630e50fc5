// The reference from this server's own description; nothing is fetched from anywhere else.
SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  docExpansion: 'none',
  filter: true,
  validatorUrl: null,
  requestInterceptor: (request) => {
    if (!request.loadSpec) request.headers['Service-Version'] = '2';
    return request;
  },
});
