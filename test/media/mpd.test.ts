/** DASH manifests: the URLs and byte ranges in them. */

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ManifestOptions, parseManifest } from '../../src/media/mpd.ts';

const film = 'http://media.example/film';
const second = Date.parse('2026-01-01T00:00:00Z') / 1000;

function parse(text: string, options: Partial<ManifestOptions> = {}) {
  return parseManifest(text, { base: `${film}/index.mpd?v=1`, choice: 'all', now: (second + 100) * 1000, ...options });
}

/** Returns the targets as short texts: the path below the directory of the manifest, and the range. */
function targetsOf(text: string, options: Partial<ManifestOptions> = {}): string[] {
  const manifest = parse(text, options);
  expect(manifest).toMatchObject({ kind: 'read', faults: [] });
  if (manifest.kind === 'invalid') return [];
  return manifest.targets.map(
    ({ url, range }) => url.replace(`${film}/`, '') + (range === undefined ? '' : ` ${range}`),
  );
}

const mpd = (attributes: string, ...periods: string[]) =>
  `<?xml version="1.0"?>\n<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" ${attributes}>${periods.join('\n')}</MPD>`;
const period = (...content: string[]) => `<Period>${content.join('\n')}</Period>`;
const set = (...content: string[]) => `<AdaptationSet>${content.join('\n')}</AdaptationSet>`;
/** A static manifest of ten seconds with one Representation. */
const one = (...content: string[]) =>
  mpd(
    'mediaPresentationDuration="PT10S"',
    period(set(`<Representation id="v1" bandwidth="5000">${content.join('\n')}</Representation>`)),
  );
const timeline = (attributes: string, entries: string) =>
  `<SegmentTemplate ${attributes}><SegmentTimeline>${entries}</SegmentTimeline></SegmentTemplate>`;

describe('the segments of a Representation', () => {
  const streams = (text: string) => {
    const manifest = parse(text);
    expect(manifest).toMatchObject({ kind: 'read', faults: [] });
    return manifest.kind === 'read' ? manifest.streams : [];
  };

  it('are in the order of play, apart from those of others', () => {
    const template = (id: string) =>
      `<Representation id="${id}"><SegmentTemplate media="$RepresentationID$$Number$" initialization="i" duration="5"/></Representation>`;
    const text = mpd('mediaPresentationDuration="PT10S"', period(set(template('a'), template('b'))));
    const named = (names: string[]) => names.map((name) => ({ url: `${film}/${name}` }));
    expect(streams(text)).toEqual([named(['i', 'a1', 'a2']), named(['i', 'b1', 'b2'])]);
  });

  it('may be spans of one file, which stay apart, or an index of it', () => {
    const list = '<SegmentURL mediaRange="10-19"/><SegmentURL mediaRange="20-29"/>';
    const url = `${film}/all.mp4`;
    expect(streams(one(`<BaseURL>all.mp4</BaseURL><SegmentList>${list}</SegmentList>`))).toEqual([
      [
        { url, span: { start: 10, end: 20 } },
        { url, span: { start: 20, end: 30 } },
      ],
    ]);
    const base = '<SegmentBase indexRange="10-19"><Initialization range="0-9"/></SegmentBase>';
    expect(streams(one(`<BaseURL>all.mp4</BaseURL>${base}`))).toEqual([
      [
        { url, span: { start: 0, end: 10 } },
        { url, isIndexed: true },
      ],
    ]);
  });
});

describe('SegmentTemplate', () => {
  it.each<[what: string, template: string, want: string[]]>([
    [
      'numbers by duration',
      '<SegmentTemplate media="$Number$.m4s" initialization="i.mp4" duration="4"/>',
      ['i.mp4', '1.m4s', '2.m4s', '3.m4s'],
    ],
    [
      'a duration that divides the Period, in a time scale',
      '<SegmentTemplate media="$Number$" timescale="90000" duration="450000" startNumber="0"/>',
      ['0', '1'],
    ],
    [
      'widths, identifiers and a dollar sign',
      '<SegmentTemplate media="$RepresentationID$/$Bandwidth$/$$$Number%05d$" initialization="$RepresentationID$-$Bandwidth%08d$" duration="10"/>',
      ['v1-00005000', 'v1/5000/$00001'],
    ],
    [
      'a number that is wider than its width',
      '<SegmentTemplate media="$Number%02d$" duration="10" startNumber="12345"/>',
      ['12345'],
    ],
    ['endNumber', '<SegmentTemplate media="$Number$" duration="2" startNumber="3" endNumber="4"/>', ['3', '4']],
    ['endNumber beyond the Period', '<SegmentTemplate media="$Number$" duration="5" endNumber="9"/>', ['1', '2']],
    [
      'times by duration',
      '<SegmentTemplate media="$Time$" duration="4" presentationTimeOffset="100"/>',
      ['100', '104', '108'],
    ],
    ['one segment without a number', '<SegmentTemplate media="all.mp4" duration="4"/>', ['all.mp4']],
    ['one segment without a duration', '<SegmentTemplate media="$Number$.mp4" startNumber="7"/>', ['7.mp4']],
    [
      'an index of each segment',
      '<SegmentTemplate media="$Number$" index="$Number$.x" duration="5"/>',
      ['1', '1.x', '2', '2.x'],
    ],
    [
      'an initialisation element, and a segment for switching',
      '<SegmentTemplate media="$Number$" bitstreamSwitching="$RepresentationID$.bs" duration="10"><Initialization sourceURL="i.mp4" range="0-99"/></SegmentTemplate>',
      ['v1.bs', '1', 'i.mp4 bytes=0-99'],
    ],
  ])('has %s', (_what, template, want) => expect(targetsOf(one(template))).toEqual(want));

  it('inherits each attribute by itself', () => {
    const text = mpd(
      'mediaPresentationDuration="PT4S"',
      period(
        '<SegmentTemplate timescale="1000" duration="2000" startNumber="5"/>',
        set(
          '<SegmentTemplate media="$RepresentationID$-$Number$" initialization="$RepresentationID$-i"/>',
          '<Representation id="a"/>',
          '<Representation id="b"><SegmentTemplate startNumber="8"/></Representation>',
        ),
      ),
    );
    expect(targetsOf(text)).toEqual(['a-i', 'a-5', 'a-6', 'b-i', 'b-8', 'b-9']);
  });
});

describe('SegmentTimeline', () => {
  it.each<[what: string, template: string, want: string[]]>([
    ['repeats', timeline('media="$Time$"', '<S t="0" d="2" r="2"/><S d="3"/>'), ['0', '2', '4', '6']],
    ['a gap', timeline('media="$Time$"', '<S d="2"/><S t="5" d="2"/>'), ['0', '5']],
    ['a negative r to the end of the Period', timeline('media="$Time$"', '<S t="0" d="4" r="-1"/>'), ['0', '4', '8']],
    [
      'a negative r to the next entry',
      timeline('media="$Number$-$Time$"', '<S t="0" d="2" r="-1"/><S t="5" d="5"/>'),
      ['1-0', '2-2', '3-4', '4-5'],
    ],
    [
      'a time scale and an offset',
      timeline('media="$Time$" timescale="10" presentationTimeOffset="1000"', '<S t="1000" d="40" r="-1"/>'),
      ['1000', '1040', '1080'],
    ],
    [
      'numbers that go on, and one that is stated',
      timeline('media="$Number$" startNumber="7"', '<S t="0" d="1" r="1"/><S n="20" d="1" r="1"/>'),
      ['7', '8', '20', '21'],
    ],
    [
      'only the segments of the Period',
      timeline('media="$Time$" presentationTimeOffset="4"', '<S t="0" d="4" r="9"/>'),
      ['4', '8', '12'],
    ],
    ['endNumber', timeline('media="$Number$" endNumber="2"', '<S d="1" r="4"/>'), ['1', '2']],
    [
      'times that are no safe integers',
      timeline(
        'media="$Time$" timescale="10000000" presentationTimeOffset="17000000000000001"',
        '<S t="17000000000000001" d="50000000" r="1"/>',
      ),
      ['17000000000000001', '17000000050000001'],
    ],
  ])('has %s', (_what, template, want) => expect(targetsOf(one(template))).toEqual(want));
});

describe('SegmentList', () => {
  it.each<[what: string, list: string, want: string[]]>([
    [
      'URLs',
      '<SegmentList duration="5"><Initialization sourceURL="i.mp4"/><SegmentURL media="a"/><SegmentURL media="/b?x#y"/></SegmentList>',
      ['i.mp4', 'a', 'http://media.example/b?x'],
    ],
    [
      'byte ranges of one file: those that follow each other are one',
      '<BaseURL>all.mp4</BaseURL><SegmentList><Initialization range="0-9"/><SegmentURL mediaRange="10-99"/><SegmentURL mediaRange="100-199"/><SegmentURL mediaRange="500-599"/></SegmentList>',
      ['all.mp4 bytes=0-199', 'all.mp4 bytes=500-599'],
    ],
    [
      'an index of each segment, and one of all',
      '<SegmentList><RepresentationIndex sourceURL="all.sidx"/><SegmentURL media="a" index="a.sidx" indexRange="0-9"/></SegmentList>',
      ['all.sidx', 'a', 'a.sidx bytes=0-9'],
    ],
  ])('has %s', (_what, list, want) => expect(targetsOf(one(list))).toEqual(want));

  it('of an outer level is inherited, and its URLs are resolved by the inner level', () => {
    const list = '<SegmentList><SegmentURL media="1.m4s"/></SegmentList>';
    const text = mpd('', period(set(list, '<Representation id="a"><BaseURL>a/</BaseURL></Representation>')));
    expect(targetsOf(text)).toEqual(['a/1.m4s']);
  });
});

describe('a single file', () => {
  it.each<[what: string, content: string, want: string[]]>([
    ['by its BaseURL alone', '<BaseURL>a.mp4</BaseURL>', ['a.mp4']],
    [
      'with SegmentBase: the whole, which has its index',
      '<BaseURL> a.mp4 </BaseURL><SegmentBase indexRange="100-199"><Initialization range="0-99"/></SegmentBase>',
      ['a.mp4'],
    ],
    [
      'with its index in another file',
      '<BaseURL>a.mp4</BaseURL><SegmentBase><Initialization sourceURL="i.mp4"/><RepresentationIndex sourceURL="x" range="0-9"/></SegmentBase>',
      ['i.mp4', 'a.mp4', 'x bytes=0-9'],
    ],
  ])('is found %s', (_what, content, want) => expect(targetsOf(one(content))).toEqual(want));
});

describe('BaseURL', () => {
  it('is resolved at each level', () => {
    const text = mpd(
      '',
      '<BaseURL>m/</BaseURL>',
      '<Period><BaseURL>p/</BaseURL><AdaptationSet><BaseURL>s/</BaseURL><Representation><BaseURL>r.mp4</BaseURL></Representation>' +
        '<Representation><BaseURL>/top.mp4</BaseURL></Representation></AdaptationSet></Period>',
    );
    expect(targetsOf(text)).toEqual(['m/p/s/r.mp4', 'http://media.example/top.mp4']);
  });

  it('of several is the one on the host of the manifest, or else the first one', () => {
    const [here, there, elsewhere] = ['http://media.example/x/', 'http://a.example/', 'http://b.example/'];
    const bases = (...urls: string[]) => urls.map((url) => `<BaseURL>${url}</BaseURL>`).join('');
    const template = '<SegmentTemplate media="1"/>';
    expect(targetsOf(one(bases(there, here), template))).toEqual([`${here}1`]);
    expect(targetsOf(one(bases(there, elsewhere), template))).toEqual([`${there}1`]);
  });
});

describe('Periods', () => {
  const content = (name: string) =>
    set(`<Representation id="${name}"><SegmentTemplate media="${name}$Number$" duration="2"/></Representation>`);

  it.each<[what: string, attributes: string, periods: [attributes: string, name: string][], want: string[]]>([
    [
      'with starts: up to the next one, and to the end of the presentation',
      'mediaPresentationDuration="PT6S"',
      [
        ['start="PT0S"', 'a'],
        ['start="PT4S"', 'b'],
      ],
      ['a1', 'a2', 'b1'],
    ],
    [
      'with durations',
      '',
      [
        ['duration="PT4S"', 'a'],
        ['duration="PT2.001S"', 'b'],
      ],
      ['a1', 'a2', 'b1', 'b2'],
    ],
    [
      'that end before the next one',
      'mediaPresentationDuration="P0Y0M0DT0H1M2S"',
      [
        ['duration="PT2S"', 'a'],
        ['start="PT1M"', 'b'],
      ],
      ['a1', 'b1'],
    ],
  ])('%s', (_what, attributes, periods, want) => {
    const text = mpd(attributes, ...periods.map(([own, name]) => `<Period ${own}>${content(name)}</Period>`));
    expect(targetsOf(text)).toEqual(want);
  });

  it('that are to be left out are', () => {
    const away = '<Period xlink:href="urn:mpeg:dash:resolve-to-zero:2013"/>';
    expect(targetsOf(mpd('', away, `<Period duration="PT2S">${content('a')}</Period>`))).toEqual(['a1']);
  });
});

describe('a live manifest', () => {
  const live = (attributes: string, content: string, periodAttributes = 'start="PT0S"') =>
    mpd(
      `type="dynamic" availabilityStartTime="2026-01-01T00:00:00Z" ${attributes}`,
      `<Period ${periodAttributes}>${set(`<Representation id="a">${content}</Representation>`)}</Period>`,
    );
  const numbered = '<SegmentTemplate media="$Number$" duration="10"/>';
  const list = `<SegmentList duration="10" startNumber="7">${['a', 'b', 'c', 'd', 'e', 'f'].map((name) => `<SegmentURL media="${name}"/>`).join('')}</SegmentList>`;

  // Now is 100 seconds after the start.
  it.each<[what: string, text: string, want: string[]]>([
    [
      'the segments that have ended, within the depth',
      live('timeShiftBufferDepth="PT20S"', numbered),
      ['8', '9', '10'],
    ],
    ['nothing before it begins', live('', numbered, 'start="PT2M"'), []],
    ['those of a Period by its start', live('', numbered, 'start="PT1M15S"'), ['1', '2']],
    ['those up to the end of a Period', live('', numbered, 'start="PT0S" duration="PT25S"'), ['1', '2', '3']],
    [
      'no segments after its last number',
      live('', '<SegmentTemplate media="$Number$" duration="10" endNumber="2"/>'),
      ['1', '2'],
    ],
    [
      'a time line, up to now',
      live('timeShiftBufferDepth="PT30S"', timeline('media="$Time$"', '<S t="0" d="10" r="-1"/>')),
      ['60', '70', '80', '90'],
    ],
    [
      'a time line with entries that are not available yet',
      live('', timeline('media="$Time$" timescale="10"', '<S t="900" d="50" r="1"/><S d="50" r="3"/>')),
      ['900', '950'],
    ],
    ['a list, by its first number', live('timeShiftBufferDepth="PT10S"', list), ['c', 'd']],
    ['a start without a zone, in UTC', live('', numbered).replace('00Z', '00').replace('PT0S', 'PT80S'), ['1', '2']],
  ])('has %s', (_what, text, want) => expect(targetsOf(text)).toEqual(want));
});

describe('the choice of streams', () => {
  const stream = (name: string, attributes: string) =>
    `<Representation id="${name}" ${attributes}><BaseURL>${name}</BaseURL></Representation>`;
  const text = mpd(
    '',
    period(
      `<AdaptationSet mimeType="video/mp4">${stream('360', 'height="360" bandwidth="10"')}${stream('720', 'height="720" bandwidth="30"')}</AdaptationSet>`,
      `<AdaptationSet contentType="video" height="720">${stream('720b', 'bandwidth="20"')}</AdaptationSet>`,
      `<AdaptationSet mimeType="video/mp4"><EssentialProperty schemeIdUri="http://dashif.org/guidelines/trickmode"/>${stream('trick', 'height="720" bandwidth="99"')}</AdaptationSet>`,
      `<AdaptationSet><ContentComponent contentType="audio"/>${stream('en1', 'bandwidth="1"')}${stream('en2', 'bandwidth="2"')}</AdaptationSet>`,
      `<AdaptationSet mimeType="audio/mp4">${stream('de1', 'bandwidth="1"')}</AdaptationSet>`,
      `<AdaptationSet mimeType="image/jpeg">${stream('tiles', 'height="720" bandwidth="1"')}</AdaptationSet>`,
    ),
  );

  it.each<[choice: ManifestOptions['choice'], want: string[]]>([
    ['all', ['360', '720', '720b', 'trick', 'en1', 'en2', 'de1', 'tiles']],
    ['best', ['720', 'en2', 'de1']],
    ['lowest', ['360', 'en1', 'de1']],
    [{ height: 720 }, ['720', '720b', 'en1', 'en2', 'de1']],
  ])('%j', (choice, want) => expect(targetsOf(text, { choice })).toEqual(want));

  it('names the streams that there are', () => {
    expect(parse(text, { choice: { height: 1080 } })).toEqual({
      kind: 'read',
      targets: [],
      streams: [],
      faults: ['line 2: Period: it has no such stream; it has 360p, 720p'],
    });
  });
});

describe('a manifest that cannot be used', () => {
  const bomb = `<!DOCTYPE MPD [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><MPD><Period>&b;</Period></MPD>`;
  it.each<[reason: string, text: string]>([
    ['line 1: its DOCTYPE declares something, which is refused', bomb],
    ['line 1: its XML is damaged: Invalid character entity', '<MPD><Period>&b;</Period></MPD>'],
    ['line 2: its XML is damaged: Unexpected close tag', '<MPD>\n</Period></MPD>'],
    ['line 1: its XML is damaged: Unclosed root tag', '<MPD><Period>'],
    ['it is no DASH manifest: its root element is <html>', '<!DOCTYPE html>\n<html><br></html>'],
    ['line 2: MPD: it has no Period', mpd('')],
    ['line 2: MPD: type="list" is not read, only static and dynamic', mpd('type="list"', '<Period/>')],
    ['line 2: MPD: a dynamic manifest needs availabilityStartTime', mpd('type="dynamic"', '<Period/>')],
    [
      'line 2: MPD: availabilityStartTime="soon" is no date',
      mpd('type="dynamic" availabilityStartTime="soon"', '<Period/>'),
    ],
    ['line 2: MPD: mediaPresentationDuration="10" is no duration', mpd('mediaPresentationDuration="10"', '<Period/>')],
    [
      'line 2: MPD: mediaPresentationDuration="P9999Y" is more than 1000 years',
      mpd('mediaPresentationDuration="P9999Y"', '<Period/>'),
    ],
    ['line 2: Period: duration="PT" is no duration', mpd('', '<Period duration="PT"/>')],
    ['it has more than 200000 segments', one('<SegmentTemplate media="$Number$" timescale="1000000" duration="1"/>')],
    [
      'it has more than 200000 segments',
      one(timeline('media="$Time$" timescale="1000000000"', '<S d="1" r="999999999999999999"/>')),
    ],
    ['it has more than 500000 elements', one(timeline('media="$Time$"', '<S/>'.repeat(500_001)))],
  ])('says that %s', (reason, text) => {
    const manifest = parse(text);
    expect(manifest.kind === 'invalid' ? manifest.reason : manifest).toContain(reason);
  });

  it('is bounded where its streams have too many segments together', () => {
    const many = '<SegmentTemplate media="$RepresentationID$-$Number$" timescale="100000" duration="10"/>';
    const text = mpd(
      'mediaPresentationDuration="PT10.1S"',
      period(set(many, '<Representation id="a"/><Representation id="b"/>')),
    );
    expect(parse(text)).toEqual({ kind: 'invalid', reason: 'it has more than 200000 segments' });
  });

  it('is bounded by the limits of the caller', () => {
    const many = one('<SegmentTemplate media="$Number$" timescale="10" duration="1"/>');
    expect(parse(many, { limits: { targets: 100, characters: 10_000 } })).toMatchObject({ kind: 'read' });
    expect(parse(many, { limits: { targets: 99, characters: 10_000 } })).toEqual({
      kind: 'invalid',
      reason: 'it has more than 99 segments',
    });
  });

  it('is bounded where its URLs are long', () => {
    const many = `<SegmentTemplate media="${'a'.repeat(8000)}$Number$" timescale="2000" duration="1"/>`;
    expect(parse(one(many))).toEqual({
      kind: 'invalid',
      reason: 'the URLs of its segments have more than 100000000 characters together',
    });
  });

  it('is read at once where it has many streams', () => {
    const streams = Array.from({ length: 20_000 }, (_, at) => `<Representation id="${at}"/>`).join('');
    const text = mpd('', period(set('<SegmentTemplate media="$RepresentationID$"/>', streams)));
    expect(targetsOf(text)).toHaveLength(20_000);
  });

  it('is bounded where a live one has no depth and short segments', () => {
    const text = mpd(
      'type="dynamic" availabilityStartTime="1970-01-01T00:00:00Z"',
      `<Period start="PT0S">${set('<Representation><SegmentTemplate media="$Number$" duration="1"/></Representation>')}</Period>`,
    );
    expect(parse(text)).toMatchObject({ kind: 'invalid', reason: 'it has more than 200000 segments' });
  });
});

describe('a part that cannot be used', () => {
  it.each<[want: string, content: string]>([
    [
      'SegmentTemplate: media="$SubNumber$-$Number$": $SubNumber$ is not known',
      '<SegmentTemplate media="$SubNumber$-$Number$" duration="5"/>',
    ],
    [
      'SegmentTemplate: media="$Number%5d$": $Number%5d$ is not known',
      '<SegmentTemplate media="$Number%5d$" duration="5"/>',
    ],
    ['SegmentTemplate: media="$Number$$": a $ is not closed', '<SegmentTemplate media="$Number$$" duration="5"/>'],
    [
      'SegmentTemplate: initialization="$Time$": $Time$ has no value here',
      '<SegmentTemplate media="1" initialization="$Time$"/>',
    ],
    ['SegmentTemplate: media="data:x" is no http or https URL', '<SegmentTemplate media="data:x"/>'],
    ['SegmentTemplate: it has no media', '<SegmentTemplate duration="5"/>'],
    ['SegmentTemplate: duration="0" is not more than 0', '<SegmentTemplate media="$Number$" duration="0"/>'],
    [
      'SegmentTemplate: timescale="-1" is no whole number',
      '<SegmentTemplate media="$Number$" timescale="-1" duration="1"/>',
    ],
    ['S: it has no d', timeline('media="$Time$"', '<S t="0"/>')],
    ['S: r="x" is no whole number', timeline('media="$Time$"', '<S d="1" r="x"/>')],
    ['S: after a negative r it needs t', timeline('media="$Time$"', '<S d="1" r="-1"/><S d="1"/>')],
    ['S: sequences of segments (k) are not read', timeline('media="$Time$"', '<S d="1" k="4"/>')],
    ['S: patterns (p) are not read', timeline('media="$Time$"', '<S d="1" p="0"/>')],
    [
      'SegmentURL: mediaRange="9-1" is no byte range such as 0-99',
      '<SegmentList><SegmentURL mediaRange="9-1"/></SegmentList>',
    ],
    ['SegmentURL: it has neither media nor mediaRange', '<SegmentList><SegmentURL/></SegmentList>'],
    ['SegmentList: it has no SegmentURL', '<SegmentList duration="5"/>'],
    [
      'SegmentList: its content is in another document (xlink:href="list.xml"), which is not read',
      '<SegmentList xlink:href="list.xml"/>',
    ],
    ['BaseURL: "ftp://a/" is no http or https URL', '<BaseURL>ftp://a/</BaseURL>'],
    ['BaseURL: byteRange is not read', '<BaseURL byteRange="$base$?$first$">a</BaseURL>'],
    ['Representation: it has no segments: no SegmentTemplate, SegmentList or BaseURL', ''],
    [
      'EssentialProperty: URLs with a query from elsewhere (urlparam) are not read',
      '<BaseURL>a</BaseURL><EssentialProperty schemeIdUri="urn:mpeg:dash:urlparam:2014"/>',
    ],
  ])('is named: %s', (want, content) => {
    const ground = mpd(
      'mediaPresentationDuration="PT10S"',
      period(
        set(
          `<Representation id="bad">\n${content || ' '}</Representation>`,
          '<Representation id="good"><SegmentTemplate media="good"/></Representation>',
        ),
      ),
    );
    const line = want.startsWith('Representation') ? 2 : 3;
    expect(parse(ground)).toEqual({
      kind: 'read',
      targets: [{ url: `${film}/good` }],
      streams: [[{ url: `${film}/good` }]],
      faults: [`line ${line}: ${want}`],
    });
  });

  it('may be a whole Period', () => {
    const good = period(set('<Representation><BaseURL>good</BaseURL></Representation>'));
    const text = mpd('', good, '<Period xlink:href="http://ads.example/"/>', '<Period/>', '<Period start="PT5S"/>');
    expect(parse(text)).toMatchObject({
      targets: [{ url: `${film}/good` }],
      faults: [
        'line 3: Period: its content is in another document (xlink:href="http://ads.example/"), which is not read',
        'line 4: Period: it states no start, and the Period before it no duration: its segments are not known yet',
      ],
    });
  });

  it('needs to know how many segments there are', () => {
    const text = mpd(
      '',
      period(set('<Representation><SegmentTemplate media="$Number$" duration="5"/></Representation>')),
    );
    expect(parse(text)).toMatchObject({
      targets: [],
      faults: [expect.stringContaining('line 2: SegmentTemplate: how many segments there are is not known')],
    });
  });

  it('is named once, and not more than 20 are', () => {
    const many = Array.from({ length: 30 }, (_, at) => `<Representation id="${at}"/>`).join('\n');
    const shared = set('<SegmentTemplate media="$X$"/>', many);
    expect(parse(mpd('', period(shared)))).toMatchObject({
      faults: ['line 2: SegmentTemplate: media="$X$": $X$ is not known'],
    });
    const manifest = parse(mpd('', period(set(many))));
    const faults = manifest.kind === 'read' ? manifest.faults : [];
    expect(faults).toHaveLength(21);
    expect(faults.at(-1)).toBe('10 more such problems');
  });
});

describe('elements of other namespaces', () => {
  it('do not count, and those of a prefix for DASH do', () => {
    const text =
      '<d:MPD xmlns:d="urn:mpeg:dash:schema:mpd:2011"><d:Period><BaseURL>x/</BaseURL><d:EventStream><d:Period/></d:EventStream><d:AdaptationSet>' +
      '<d:Representation><d:BaseURL><![CDATA[a?b&c]]></d:BaseURL></d:Representation></d:AdaptationSet></d:Period></d:MPD>';
    expect(targetsOf(text)).toEqual(['a?b&c']);
  });
});

describe('any manifest', () => {
  it('is read without an exception, and yields http URLs only', () => {
    const value = fc.oneof(
      fc.constantFrom('0', '1', '-1', 'PT1S', 'a', '$Number$', '$Time%02d$', '0-9', 'dynamic', '2026-01-01T00:00:00Z'),
      fc.string(),
    );
    const name = fc.constantFrom(
      'media',
      'duration',
      'timescale',
      'startNumber',
      'endNumber',
      't',
      'd',
      'r',
      'n',
      'range',
      'start',
      'type',
      'sourceURL',
      'availabilityStartTime',
      'presentationTimeOffset',
      'timeShiftBufferDepth',
      'bandwidth',
      'height',
      'xlink:href',
    );
    const escaped = (text: string) => text.replace(/[&<>"\p{Cc}\p{Cs}]/gu, '');
    const attributes = fc.dictionary(name, value).map((all) =>
      Object.entries(all)
        .map(([key, each]) => ` ${key}="${escaped(each)}"`)
        .join(''),
    );
    const levels = ['MPD', 'Period', 'AdaptationSet', 'Representation', 'SegmentTemplate', 'SegmentTimeline', 'S'];
    const inner = fc.array(
      fc.tuple(
        fc.constantFrom(
          'SegmentTemplate',
          'SegmentList',
          'SegmentURL',
          'SegmentBase',
          'BaseURL',
          'Initialization',
          'S',
        ),
        attributes,
      ),
      { maxLength: 3 },
    );
    const level = fc.tuple(attributes, inner);
    fc.assert(
      fc.property(
        fc.tuple(...levels.map(() => level)),
        fc.constantFrom<ManifestOptions['choice']>('all', 'best', { height: 1 }),
        (parts, choice) => {
          let text = '';
          for (const [at, [own, children]] of [...parts.entries()].reverse()) {
            const more = children.map(([tag, each]) => `<${tag}${each}>x</${tag}>`).join('');
            text = `<${levels[at]}${own}>${more}${text}</${levels[at]}>`;
          }
          const manifest = parse(text, { choice });
          if (manifest.kind === 'invalid') {
            expect(manifest.reason).not.toContain('XML is damaged');
            return;
          }
          for (const { url } of manifest.targets) expect(url).toMatch(/^https?:\/\//);
        },
      ),
    );
  });
});
