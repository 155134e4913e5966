/** A minimal OpenTelemetry SDK: it keeps spans in a list, and propagates traces by W3C Trace Context. */

import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Attributes,
  type Context,
  type ContextManager,
  context,
  type Link,
  propagation,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  type SpanKind,
  type SpanOptions,
  type SpanStatus,
  SpanStatusCode,
  type TextMapPropagator,
  trace,
} from '@opentelemetry/api';

/** A span that was started. */
export interface RecordedSpan {
  readonly name: string;
  readonly kind: SpanKind | undefined;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | undefined;
  readonly links: readonly Link[];
  readonly attributes: Attributes;
  readonly status: SpanStatus;
  readonly isEnded: boolean;
}

/** The recorded spans. */
export interface Recording extends Disposable {
  readonly spans: readonly RecordedSpan[];
  /** Makes every later start of a span throw. */
  fail(error: Error): void;
}

/**
 * Registers the SDK in this process; disposing removes it. Spans are listed in the order of their starts. Calls `onEnd` with each
 * span that has ended.
 */
export function recordSpans(onEnd: (span: RecordedSpan) => void = () => {}): Recording {
  const spans: RecordingSpan[] = [];
  let fault: Error | undefined;
  const startSpan = (name: string, options: SpanOptions = {}, parent: Context = context.active()): Span => {
    if (fault !== undefined) throw fault;
    const span = new RecordingSpan(name, options, trace.getSpanContext(parent), spans.length + 1, onEnd);
    spans.push(span);
    return span;
  };
  const startActiveSpan = (): never => {
    throw new Error('not used');
  };
  trace.setGlobalTracerProvider({ getTracer: () => ({ startSpan, startActiveSpan }) });
  propagation.setGlobalPropagator(traceContext);
  context.setGlobalContextManager(new StorageContextManager());
  return {
    spans,
    fail(error) {
      fault = error;
    },
    [Symbol.dispose]() {
      trace.disable();
      propagation.disable();
      context.disable();
    },
  };
}

class RecordingSpan implements Span, RecordedSpan {
  readonly kind: SpanKind | undefined;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | undefined;
  readonly links: readonly Link[];
  readonly attributes: Attributes;
  readonly #state: string | undefined;
  readonly #onEnd: (span: RecordedSpan) => void;
  name: string;
  status: SpanStatus = { code: SpanStatusCode.UNSET };
  isEnded = false;

  constructor(
    name: string,
    { kind, attributes, links }: SpanOptions,
    parent: SpanContext | undefined,
    number: number,
    onEnd: (span: RecordedSpan) => void,
  ) {
    this.name = name;
    this.kind = kind;
    this.attributes = { ...attributes };
    this.links = links ?? [];
    this.traceId = parent?.traceId ?? number.toString(16).padStart(32, '0');
    this.spanId = number.toString(16).padStart(16, '0');
    this.parentId = parent?.spanId;
    this.#state = parent?.traceState?.serialize();
    this.#onEnd = onEnd;
  }

  spanContext(): SpanContext {
    const state = this.#state;
    const traceState = state === undefined ? {} : { traceState: stateOf(state) };
    return { traceId: this.traceId, spanId: this.spanId, traceFlags: 1, ...traceState };
  }

  setAttribute(key: string, value: Attributes[string]): this {
    if (this.isEnded) throw new Error(`${key} is set after the end`);
    this.attributes[key] = value;
    return this;
  }

  setAttributes(attributes: Attributes): this {
    for (const [key, value] of Object.entries(attributes)) this.setAttribute(key, value);
    return this;
  }

  setStatus(status: SpanStatus): this {
    this.status = status;
    return this;
  }

  updateName(name: string): this {
    this.name = name;
    return this;
  }

  end(): void {
    if (this.isEnded) throw new Error('it has ended twice');
    this.isEnded = true;
    this.#onEnd(this);
  }

  isRecording(): boolean {
    return !this.isEnded;
  }

  addEvent(): this {
    return this;
  }

  addLink(): this {
    return this;
  }

  addLinks(): this {
    return this;
  }

  recordException(): void {}
}

const stateOf = (text: string) => ({
  serialize: () => text,
  get: () => undefined,
  set: () => stateOf(text),
  unset: () => stateOf(text),
});

/** W3C Trace Context §3.2: a malformed traceparent is ignored. */
const traceContext: TextMapPropagator = {
  fields: () => ['traceparent', 'tracestate'],
  inject(current, carrier, setter) {
    const span = trace.getSpanContext(current);
    if (span === undefined) return;
    setter.set(carrier, 'traceparent', `00-${span.traceId}-${span.spanId}-01`);
    if (span.traceState !== undefined) setter.set(carrier, 'tracestate', span.traceState.serialize());
  },
  extract(current, carrier, getter) {
    const parent = getter.get(carrier, 'traceparent');
    const [, traceId, spanId] = /^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/.exec(String(parent)) ?? [];
    if (traceId === undefined || spanId === undefined) return current;
    const state = getter.get(carrier, 'tracestate');
    const traceState = state === undefined ? {} : { traceState: stateOf(String(state)) };
    return trace.setSpanContext(current, { traceId, spanId, traceFlags: 1, isRemote: true, ...traceState });
  },
};

class StorageContextManager implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>();

  active(): Context {
    return this.#storage.getStore() ?? ROOT_CONTEXT;
  }

  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    given: Context,
    action: F,
    thisArg?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#storage.run(given, () => action.apply(thisArg, args));
  }

  bind<T>(_given: Context, target: T): T {
    return target;
  }

  enable(): this {
    return this;
  }

  disable(): this {
    return this;
  }
}
