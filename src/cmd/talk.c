/* Messages and progress on stderr. */
#include <config.h>

#include "cmd/talk.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

volatile sig_atomic_t tw_talk_stop;

static const char *command_name;
static char rank_text[32];
static bool is_verbose, is_bar_up;
static double last_line_seconds = -1;

static void show(void *arg, enum tw_log_level level, const char *text)
{
    (void)arg;
    if (level == TW_LOG_DEBUG && !is_verbose)
        return;
    tw_talk_progress_end();
    fprintf(stderr, "twellscope %s: %s%s%s\n", command_name, rank_text,
            level == TW_LOG_WARNING ? "warning: " : "", text);
}

void tw_talk_start(const char *command)
{
    command_name = command;
    tw_log_sink(show, NULL);
}

void tw_talk_rank(int rank)
{
    snprintf(rank_text, sizeof rank_text, "rank %d: ", rank);
}

void tw_talk_verbose(void)
{
    is_verbose = true;
}

static void format_seconds(char *text, size_t size, double seconds)
{
    long s = (long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(text, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, size, "%ld:%02ld", s / 60, s % 60);
}

static void draw_bar(double fraction)
{
    enum { WIDTH = 24 };
    char bar[WIDTH + 1];
    int filled = fraction < 0 ? 0 : (int)(fraction * WIDTH);
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r[%s] ", bar);
}

void tw_talk_progress(void *arg, const struct tw_progress *p)
{
    (void)arg;
    bool is_terminal = isatty(STDERR_FILENO);
    double wait = is_terminal ? 0.2 : 10.0;
    if (last_line_seconds >= 0 && p->seconds - last_line_seconds < wait)
        return;
    if (!is_terminal && p->seconds < wait)
        return;
    last_line_seconds = p->seconds;
    char left[32] = "unknown", percent[16] = "";
    if (p->fraction > 0) {
        format_seconds(left, sizeof left,
                       p->seconds * (1 - p->fraction) / p->fraction);
        snprintf(percent, sizeof percent, "%3.0f %%  ", 100 * p->fraction);
    }
    if (is_terminal)
        draw_bar(p->fraction);
    fprintf(stderr, "%s%lld tokens  %.0f tokens/s  nnz %.1f  ETA %s%s", percent,
            (long long)p->tokens,
            p->seconds > 0 ? (double)p->tokens / p->seconds : 0.0, p->mean_nnz,
            left, is_terminal ? "\033[K" : "\n");
    is_bar_up = is_terminal;
    fflush(stderr);
}

void tw_talk_progress_end(void)
{
    if (is_bar_up)
        fputc('\n', stderr);
    is_bar_up = false;
}

static void on_signal(int number)
{
    if (tw_talk_stop) {
        signal(number, SIG_DFL);
        raise(number);
    }
    tw_talk_stop = number;
}

void tw_talk_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}
