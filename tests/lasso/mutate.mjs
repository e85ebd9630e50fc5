// Changes of a signed SAML message: of its bytes, of its elements and attributes, and of its signature.

const LETTERS = ['<', '>', '/', '"', '=', '&', '&amp;', '&#0;', '&#x41;', '&lt;', ' ', '\t', '\n', '\0', 'A', '0', ':', '!', '<!---->', '<!--x-->', '<?x y?>', '<![CDATA[]]>', '<![CDATA[x]]>', '\u00e9', '\ufeff', '\u202e', ']]>',
  '<!DOCTYPE r [<!ENTITY e "x">]>', '&e;', '<x/>', '<saml:Audience/>', 'xmlns="u"', 'ID="_assertion1"', 'xml:id="_assertion1"', 'Id="_assertion1"'];
const OTHERS = [
  ['user@example.test', 'admin@example.test'], ['user@example.test', 'user@example.test<!--x-->.evil.test'], ['user@example.test', 'user@example.test&#0;'], ['staff', 'root'], ['"_assertion1"', '"_assertion2"'], ['"#_assertion1"', '"#_response1"'],
  ['"#_assertion1"', '""'], ['"#_assertion1"', '"#xpointer(/)"'], ['"#_response1"', '"#_assertion1"'], ['"_response1"', '"_assertion1"'], ['"_request1"', '"_request2"'], ['rsa-sha256', 'rsa-sha1'], ['xmlenc#sha256', 'xmldsig#sha1'],
  ['xmldsig-more#rsa-sha256', 'xmldsig#hmac-sha1'], ['enveloped-signature', 'base64'], ['2001/10/xml-exc-c14n#', '2001/10/xml-exc-c14n#WithComments'], ['2001/10/xml-exc-c14n#', 'TR/1999/REC-xslt-19991116'], ['Version="2.0"', 'Version="1.1"'],
  ['cm:bearer', 'cm:sender-vouches'], ['status:Success', 'status:Responder'], ['SAML:2.0:assertion', 'SAML:1.0:assertion'], ['saml:NameID', 'saml:EncryptedID'], ['ds:', ''], ['samlp:', 'saml:'], ['Signature', 'signature'],
  ['nameid-format:emailAddress', 'nameid-format:unspecified'], ['idp.example.com', 'other.example.com'], ['idp.example.test', 'other.example.test'], ['NotOnOrAfter', 'NotOnorAfter'], ['Recipient=', 'recipient='],
];

// [{start, end, head, name}]: where each element is, and where its start tag ends.
function elementsOf(xml) {
  const all = [], open = [];
  for (const tag of xml.matchAll(/<(\/?)([A-Za-z_][\w:.-]*)[^<>]*?(\/?)>/g)) {
    const end = tag.index + tag[0].length;
    if (tag[1]) {
      const one = open.pop();
      if (one) one.end = end;
    } else {
      const one = { start: tag.index, head: end, end, name: tag[2] };
      all.push(one);
      if (!tag[3]) open.push(one);
    }
  }
  return all;
}

const put = (xml, at, text, away = 0) => xml.slice(0, at) + text + xml.slice(at + away);
const textOf = (xml, one) => xml.slice(one.start, one.end);

// A place for an element: before one, or as the first or last child of one.
function placeIn(random, xml) {
  const one = random.of(elementsOf(xml)), closing = xml.lastIndexOf('</', one.end);
  return random.of([one.start, one.head, closing > one.start ? closing : one.end]);
}

const CHANGES = {
  bytes_replaced: (r, xml) => put(xml, r.below(xml.length), r.of(LETTERS), 1 + r.below(2)),
  bytes_inserted: (r, xml) => put(xml, r.below(xml.length), r.of(LETTERS)),
  bytes_removed: (r, xml) => put(xml, r.below(xml.length), '', 1 + r.below(r.chance(0.2) ? 200 : 3)),
  bit_turned: (r, xml) => { const at = r.below(xml.length); return put(xml, at, String.fromCharCode(xml.charCodeAt(at) ^ (1 << r.below(7))), 1); },
  between_tags: (r, xml) => put(xml, placeIn(r, xml), r.of(LETTERS)),
  word_changed: (r, xml) => { const [from, to] = r.of(OTHERS); return r.chance(0.5) ? xml.replace(from, () => to) : xml.replaceAll(from, () => to); },
  element_copied: (r, xml) => { const text = textOf(xml, r.of(elementsOf(xml))); return put(xml, placeIn(r, xml), text); },
  element_moved: (r, xml) => { const one = r.of(elementsOf(xml)), text = textOf(xml, one), rest = put(xml, one.start, '', text.length); return elementsOf(rest).length ? put(rest, placeIn(r, rest), text) : rest; },
  element_removed: (r, xml) => { const one = r.of(elementsOf(xml)); return put(xml, one.start, '', one.end - one.start); },
  element_emptied: (r, xml) => { const one = r.of(elementsOf(xml)), closing = xml.lastIndexOf('</', one.end); return closing > one.head ? put(xml, one.head, '', closing - one.head) : xml; },
  element_wrapped: (r, xml) => { const one = r.of(elementsOf(xml)), by = r.of(['x', 'saml:Advice', 'samlp:Extensions', 'ds:Object', 'saml:Assertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"']); return put(put(xml, one.end, `</${by.split(' ')[0]}>`), one.start, `<${by}>`); },
  element_swapped: (r, xml) => { const [a, b] = [r.of(elementsOf(xml)), r.of(elementsOf(xml))].sort((x, y) => x.start - y.start); return a.end <= b.start ? xml.slice(0, a.start) + textOf(xml, b) + xml.slice(a.end, b.start) + textOf(xml, a) + xml.slice(b.end) : xml; },
  // the wrapping attacks: a forged assertion, and the signed one somewhere within or beside it
  signed_part_hidden: (r, xml) => {
    const whole = elementsOf(xml), one = whole.find((e) => e.name.endsWith('Assertion'));
    if (!one) return xml;
    const signed = textOf(xml, one), forged = signed.replaceAll('user@example.test', 'admin@example.test').replace(/<ds:Signature[\s\S]*?<\/ds:Signature>/, () => (r.chance(0.5) ? '' : '<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#"/>')).replace('"_assertion1"', () => r.of(['"_assertion1"', '"_forged"', '""']));
    const inner = elementsOf(forged), host = r.of(inner);
    return xml.slice(0, one.start) + r.of([forged + signed, signed + forged, put(forged, host.head, signed), put(signed, r.of(elementsOf(signed)).head, forged)]) + xml.slice(one.end);
  },
  attribute_changed: (r, xml) => { const all = [...xml.matchAll(/ ([\w:.-]+)="([^"]*)"/g)], one = r.of(all); return put(xml, one.index, r.of(['', ` ${one[1]}=""`, ` ${one[1]}="${r.of(all)[2]}"`, ` ${one[1]}='${one[2]}'`, `${one[0]}${one[0]}`, ` x${one[1]}="${one[2]}"`, ` ${one[1]}=" ${one[2]}"`, ` ${one[1]}="${one[2]}&#10;"`]), one[0].length); },
  attribute_added: (r, xml) => { const all = [...xml.matchAll(/ ([\w:.-]+)="([^"]*)"/g)], one = r.of(elementsOf(xml)); return put(xml, one.start + 1 + one.name.length, r.of(all)[0]); },
  prefix_bound_elsewhere: (r, xml) => { const one = r.of(elementsOf(xml)); return put(xml, one.start + 1 + one.name.length, r.of([' xmlns:saml="urn:x"', ' xmlns:ds="urn:x"', ' xmlns="urn:oasis:names:tc:SAML:2.0:assertion"', ' xmlns:samlp=""', ' xmlns:xs="http://www.w3.org/2001/XMLSchema"', ' xml:space="preserve"', ' xml:base="http://x/"'])); },
  whitespace: (r, xml) => put(xml, r.of(elementsOf(xml))[r.of(['start', 'head', 'end'])], r.of([' ', '\n', '\r\n', '\t'])),
};

// {xml, done}: one to three changes, and their names.
export function mutate(random, xml) {
  const done = [];
  for (let left = random.chance(0.7) ? 1 : 2 + random.below(2); left; left--) {
    const name = random.of(Object.keys(CHANGES));
    if (!elementsOf(xml).length || !/ [\w:.-]+="/.test(xml)) break;
    xml = CHANGES[name](random, xml);
    done.push(name);
  }
  return { xml, done };
}
